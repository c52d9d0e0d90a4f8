"""Names of keys, byte for byte as Node makes them. Twin: packages/core/src/identity/key.ts and address.ts"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from ipaddress import IPv4Address, IPv6Address, ip_address

PLAIN = re.compile(r"[A-Za-z0-9._~-]{1,64}")

# Half of a pair. UTF-8 has none, and Node writes the replacement character for it.
LONE_SURROGATE = re.compile("[\ud800-\udfff]")

# Who has no address: a closed or Unix socket.
NO_ADDRESS = "none"


def key_of(prefix: str, identity: str, policy: str, tag: str) -> str:
    """All keys of one identity share what stands in braces, and with it a slot of a Cluster."""
    return f"{prefix}:{{{identity}}}:{policy}:{tag}"


def digest(text: str, secret: str | None = None) -> str:
    """128 bits of SHA-256, or of HMAC-SHA-256 where there is a secret: 22 characters of base64url."""
    if secret is None:
        whole = hashlib.sha256(utf8(text)).digest()
    else:
        whole = hmac.digest(utf8(secret), utf8(text), "sha256")
    return base64.urlsafe_b64encode(whole[:16]).decode("ascii").rstrip("=")


def safe_value(text: str) -> str:
    """Short and plain text as it is, all else as `h.` and a digest."""
    # fullmatch: in Python, `$` also stands before a line break at the end.
    plain = PLAIN.fullmatch(text) and not text.startswith("h.")
    return text if plain else f"h.{digest(text)}"


def address_value(address: str | None, ipv6_prefix: int = 64) -> str:
    """IPv4 as it is, IPv6 as the hex digits of its prefix, IPv4 in IPv6 as the IPv4 it is."""
    found = None if address is None else bare_address(address)
    if found is None:
        return NO_ADDRESS
    if isinstance(found, IPv4Address):
        return str(found)
    if found.ipv4_mapped:
        return str(found.ipv4_mapped)
    rest = 128 - ipv6_prefix
    digits = f"{int(found) >> rest << rest:032x}"
    return digits[: (ipv6_prefix + 3) // 4]


def bare_address(text: str) -> IPv4Address | IPv6Address | None:
    """The address alone, out of `1.2.3.4:5678`, `[2001:db8::1]:443`, `fe80::1%eth0`; None when there is none."""
    whole = text.strip(" \t\r\n")
    found = _parse(whole)
    if found:
        return found
    if whole.startswith("["):
        inner, bracket, rest = whole[1:].partition("]")
        found = _parse(inner)
        sound = bracket and isinstance(found, IPv6Address) and (rest == "" or _is_port(rest))
        return found if sound else None
    host, colon, port = whole.partition(":")
    found = _parse(host)
    return found if isinstance(found, IPv4Address) and _is_port(colon + port) else None


def _parse(text: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(text.partition("%")[0])
    except ValueError:
        return None


def _is_port(text: str) -> bool:
    return re.fullmatch(":[0-9]+", text) is not None and int(text[1:]) <= 65535


def utf8(text: str) -> bytes:
    return LONE_SURROGATE.sub("\ufffd", text).encode("utf-8")
