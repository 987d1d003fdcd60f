"""What is imported to read a kubeconfig; each case in an interpreter of its own."""

import subprocess
import sys
import textwrap

MODELS = "kubernetes_asyncio.client.models"


def run(script: str) -> str:
    """What the script prints."""
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(script)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    return done.stdout.strip()


def test_reading_configuration_does_not_import_the_whole_api() -> None:
    seen = run(
        f"""
        import sys
        imported = set()
        class Witness:
            def find_spec(self, name, path=None, target=None):
                imported.add(name)
        sys.meta_path.insert(0, Witness())
        from scheduler.kube.credentials import library
        found = library()
        print({MODELS!r} in imported, callable(found.load_kube_config))
        print(any(name.startswith("kubernetes_asyncio") for name in sys.modules))
        """
    )
    assert seen.split() == ["False", "True", "False"]


def test_whoever_imports_the_package_later_gets_all_of_it() -> None:
    seen = run(
        """
        from scheduler.kube.credentials import library
        library()
        from kubernetes_asyncio.client import ApiClient, V1Pod
        print(ApiClient.__name__, V1Pod.__name__)
        """
    )
    assert seen == "ApiClient V1Pod"


def test_what_is_there_already_is_used() -> None:
    seen = run(
        """
        from kubernetes_asyncio.client import Configuration
        from scheduler.kube.credentials import library
        print(library().Configuration is Configuration)
        """
    )
    assert seen == "True"


def test_a_release_that_is_laid_out_differently_is_imported_as_a_whole() -> None:
    seen = run(
        """
        from scheduler.kube import credentials as module
        def other_layout():
            raise ImportError
        module._pretend_small = other_layout
        print(module.library().Configuration.__name__)
        """
    )
    assert seen == "Configuration"
