"""``python -m shipping.docs``, or ``make docs``."""

from shipping.docs import (
    api_page,
    cli_page,
    configuration_page,
    invalidation,
    metrics_page,
    pending_page,
    plugin_pages,
    security_page,
)

PAGES = (
    *(api_page, cli_page, configuration_page, invalidation),
    *(metrics_page, pending_page, plugin_pages, security_page),
)

for page in PAGES:
    page.write()
