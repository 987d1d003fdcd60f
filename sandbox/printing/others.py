"""The columns of namespaces, services, budgets, leases and other small kinds."""

from datetime import datetime

from sandbox.printing.column import AGE, NAME, NONE, Column, at, boolean, labels, number, text
from sandbox.store import Body

_MOST_ENDPOINTS = 3


def _ports(service: Body, _now: datetime) -> str:
    shown = []
    for port in at(service, "spec.ports", []):
        node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
        shown.append(f"{port.get('port')}{node_port}/{port.get('protocol', 'TCP')}")
    return ",".join(shown) or NONE


def _external_addresses(service: Body, _now: datetime) -> str:
    if at(service, "spec.type") == "ExternalName":
        return str(at(service, "spec.externalName", NONE))
    found = [each.get("ip", "") for each in at(service, "status.loadBalancer.ingress", [])]
    pending = at(service, "spec.type") == "LoadBalancer"
    listed = [*found, *at(service, "spec.externalIPs", [])]
    return ",".join(listed) or ("<pending>" if pending else NONE)


def _endpoints(endpoints: Body, _now: datetime) -> str:
    found = [
        f"{address.get('ip')}:{port.get('port')}"
        for subset in endpoints.get("subsets") or ()
        for port in subset.get("ports") or ()
        for address in subset.get("addresses") or ()
    ]
    more = len(found) - _MOST_ENDPOINTS
    return ",".join(found[:_MOST_ENDPOINTS]) + (f" + {more} more..." if more > 0 else "") or NONE


def _data(body: Body, _now: datetime) -> int:
    return len(body.get("data") or {}) + len(body.get("binaryData") or {})


def _or_not_applicable(name: str, path: str) -> Column:
    return Column(name, lambda body, _: str(at(body, path, "N/A")))


def _hosts(ingress: Body, _now: datetime) -> str:
    found = [each["host"] for each in at(ingress, "spec.rules", []) if each.get("host")]
    return ",".join(found) or "*"


INGRESSES = (
    NAME,
    text("Class", "spec.ingressClassName", NONE),
    Column("Hosts", _hosts),
    # No controller gives it one.
    Column("Address", lambda _body, _now: ""),
    Column("Ports", lambda body, _: "80, 443" if at(body, "spec.tls") else "80"),
    AGE,
)
NAMESPACES = (NAME, text("Status", "status.phase"), AGE)
SERVICES = (
    NAME,
    text("Type", "spec.type"),
    text("Cluster-IP", "spec.clusterIP", NONE),
    Column("External-IP", _external_addresses),
    Column("Port(s)", _ports),
    AGE,
    Column("Selector", lambda body, _: labels(at(body, "spec.selector")), wide=True),
)
ENDPOINTS = (NAME, Column("Endpoints", _endpoints), AGE)
CONFIG_MAPS = (NAME, Column("Data", _data), AGE)
SECRETS = (NAME, text("Type", "type"), Column("Data", _data), AGE)
NAMED = (NAME, AGE)
POD_DISRUPTION_BUDGETS = (
    NAME,
    _or_not_applicable("Min Available", "spec.minAvailable"),
    _or_not_applicable("Max Unavailable", "spec.maxUnavailable"),
    number("Allowed Disruptions", "status.disruptionsAllowed"),
    AGE,
)
PRIORITY_CLASSES = (
    NAME,
    number("Value", "value"),
    boolean("Global-Default", "globalDefault"),
    AGE,
    text("PreemptionPolicy", "preemptionPolicy"),
)
LEASES = (NAME, text("Holder", "spec.holderIdentity"), AGE)
