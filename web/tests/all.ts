/** What can be tested without a browser; `python -m shipping.page --test` runs it. */

import "./amounts";
import "./colour";
import "./decisions";
import "./devices";
import "./format";
import "./kubectl";
import "./layout";
import "./manifest";
import "./matrix";
import "./reasons";
import "./scale";
