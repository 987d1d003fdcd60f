"""IP addresses and CIDRs, read as Go's netip reads them."""

from __future__ import annotations

import re
from collections.abc import Callable
from ipaddress import AddressValueError, IPv4Address, IPv6Address, ip_network

from scheduler.cel.errors import CelRuntimeError, no_such_overload
from scheduler.cel.values import AddressValue, Prefix, Value, type_name


def parse_address(text: str) -> IPv4Address | IPv6Address | None:
    """An address without a zone, or None. IPv4 inside IPv6 is not allowed either."""
    try:
        if ":" not in text:
            return IPv4Address(text)
        if "%" in text:
            return None
        address = IPv6Address(text)
    except (AddressValueError, ValueError):
        return None
    return None if address.ipv4_mapped is not None else address


def parse_prefix(text: str) -> Prefix | None:
    address_text, slash, bits = text.rpartition("/")
    if not slash or re.fullmatch(r"0|[1-9][0-9]{0,2}", bits) is None:
        return None
    address = parse_address(address_text)
    if address is None or int(bits) > address.max_prefixlen:
        return None
    return Prefix(address, int(bits))


def _string(function: str, value: Value) -> str:
    if type(value) is not str:
        raise no_such_overload(function, type_name(value))
    return value


def ip(value: Value) -> AddressValue:
    if type(value) is Prefix:
        return AddressValue(value.ip)
    text = _string("ip", value)
    address = parse_address(text)
    if address is None:
        raise CelRuntimeError(_problem(text))
    return AddressValue(address)


def _problem(text: str) -> str:
    plain, percent, _ = text.partition("%")
    if percent and parse_address(plain) is not None:
        return f'IP address "{text}" with zone value is not allowed'
    try:
        if ":" in text and IPv6Address(text).ipv4_mapped is not None:
            return f'IPv4-mapped IPv6 address "{text}" is not allowed'
    except ValueError:
        pass
    return f'IP Address "{text}" parse error during conversion from string: unable to parse IP'


def is_ip(value: Value) -> bool:
    return parse_address(_string("isIP", value)) is not None


def is_canonical(value: Value) -> bool:
    text = _string("ip.isCanonical", value)
    return str(ip(text).ip) == text


def cidr(value: Value) -> Prefix:
    text = _string("cidr", value)
    prefix = parse_prefix(text)
    if prefix is None:
        message = f'network address parse error during conversion from string: "{text}"'
        raise CelRuntimeError(message)
    return prefix


def is_cidr(value: Value) -> bool:
    return parse_prefix(_string("isCIDR", value)) is not None


def _link_local_multicast(address: IPv4Address | IPv6Address) -> bool:
    if address.version == 4:
        return address.packed[:3] == b"\xe0\x00\x00"
    return address.packed[0] == 0xFF and address.packed[1] & 0x0F == 2


def _global_unicast(address: IPv4Address | IPv6Address) -> bool:
    broadcast = address.version == 4 and address.packed == b"\xff\xff\xff\xff"
    link_local = address.is_link_local
    return not (
        broadcast
        or address.is_unspecified
        or address.is_loopback
        or address.is_multicast
        or link_local
    )


_OF_ADDRESS: dict[str, Callable[[IPv4Address | IPv6Address], Value]] = {
    "family": lambda address: address.version,
    "isUnspecified": lambda address: address.is_unspecified,
    "isLoopback": lambda address: address.is_loopback,
    "isLinkLocalMulticast": _link_local_multicast,
    "isLinkLocalUnicast": lambda address: address.is_link_local,
    "isGlobalUnicast": _global_unicast,
}


def _accessor(function: str) -> Callable[[Value], Value]:
    def access(value: Value) -> Value:
        if type(value) is not AddressValue:
            raise no_such_overload(function, type_name(value))
        return _OF_ADDRESS[function](value.ip)

    return access


def _prefix(function: str, *args: Value) -> Prefix:
    if type(args[0]) is not Prefix:
        raise no_such_overload(function, *(type_name(arg) for arg in args))
    return args[0]


def prefix_length(value: Value) -> int:
    return _prefix("prefixLength", value).bits


def masked(value: Value) -> Prefix:
    prefix = _prefix("masked", value)
    network = ip_network((prefix.ip, prefix.bits), strict=False)
    return Prefix(network.network_address, prefix.bits)


def _covers(prefix: Prefix, address: IPv4Address | IPv6Address) -> bool:
    if prefix.ip.version != address.version:
        return False
    shift = address.max_prefixlen - prefix.bits
    return int(prefix.ip) >> shift == int(address) >> shift


def contains_ip(*args: Value) -> bool:
    prefix = _prefix("containsIP", *args)
    other = args[1]
    if type(other) is str:
        address = parse_address(other)
        if address is None:
            raise no_such_overload()
        other = AddressValue(address)
    if type(other) is not AddressValue:
        raise no_such_overload("containsIP", *(type_name(arg) for arg in args))
    return _covers(prefix, other.ip)


def contains_cidr(*args: Value) -> bool:
    prefix = _prefix("containsCIDR", *args)
    other = cidr(args[1]) if type(args[1]) is str else args[1]
    if type(other) is not Prefix:
        raise no_such_overload("containsCIDR", *(type_name(arg) for arg in args))
    return prefix.bits <= other.bits and _covers(prefix, other.ip)


FUNCTIONS: dict[str, Callable[..., Value]] = {
    **{function: _accessor(function) for function in _OF_ADDRESS},
    "cidr": cidr,
    "containsCIDR": contains_cidr,
    "containsIP": contains_ip,
    "ip": ip,
    "ip.isCanonical": is_canonical,
    "isCIDR": is_cidr,
    "isIP": is_ip,
    "masked": masked,
    "prefixLength": prefix_length,
}
