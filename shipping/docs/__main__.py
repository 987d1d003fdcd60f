"""``python -m shipping.docs``, or ``make docs``."""

from shipping.docs import invalidation, plugin_pages

for page in (invalidation, plugin_pages):
    page.write()
