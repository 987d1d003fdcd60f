"""``python -m shipping.docs``, or ``make docs``."""

from shipping.docs import configuration_page, invalidation, metrics_page, plugin_pages

for page in (configuration_page, invalidation, metrics_page, plugin_pages):
    page.write()
