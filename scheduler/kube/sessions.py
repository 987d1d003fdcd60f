"""HTTP sessions for libraries that speak to the API server themselves."""

import aiohttp

from scheduler.kube.credentials import Access


def open_session(access: Access) -> aiohttp.ClientSession:
    """A session that carries our credentials, for the event loop that calls this.

    They are those of this moment: when the API server refuses them, a new session is needed.
    """
    headers = {"Authorization": access.authorization} if access.authorization else {}
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=access.tls), headers=headers, proxy=access.proxy
    )
