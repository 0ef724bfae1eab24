"""Configurations of HAProxy and nginx as a TLS front of a router."""

from __future__ import annotations

from typing import Final

from weft.access.endpoints.addresses import Address

HAPROXY: Final = """\
# HAProxy in front of a Weft router at {address}. It ends TLS; the router queues, balances and retries.
# Start the router with: weft router --listen {address} --allow-host NAME
defaults
    mode http
    timeout connect 5s
    timeout client 1h
    timeout server 1h
    timeout tunnel 1h
    timeout http-request 15s
    # the router decides what is sent again
    retries 0
    option forwardfor
frontend weft
    bind :443 ssl crt /etc/haproxy/weft.pem alpn h2,http/1.1
    http-request set-header X-Forwarded-Proto https
    # a front on the same machine makes every client local: keep the router's own pages inside
    http-request deny if {{ path_beg /-/ }}
    default_backend weft_router
backend weft_router
    server router {address} maxconn {connections}
"""
NGINX: Final = """\
# nginx in front of a Weft router at {address}. It ends TLS; the router queues, balances and retries.
# Start the router with: weft router --listen {address} --allow-host NAME
upstream weft_router {{
    server {address} max_fails=0;
    keepalive 64;
}}
map $http_upgrade $weft_connection {{
    default upgrade;
    ""      "";
}}
server {{
    listen 443 ssl http2;
    ssl_certificate     /etc/nginx/weft.pem;
    ssl_certificate_key /etc/nginx/weft.key;
    client_max_body_size 0;
    # a front on the same machine makes every client local: keep the router's own pages inside
    location /-/ {{ return 403; }}
    location / {{
        proxy_pass http://weft_router;
        proxy_http_version 1.1;
        proxy_set_header Host $host;
        proxy_set_header Connection $weft_connection;
        proxy_set_header Upgrade $http_upgrade;
        proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
        proxy_set_header X-Forwarded-Proto $scheme;
        # streams go on at once, in both directions
        proxy_buffering off;
        proxy_request_buffering off;
        proxy_read_timeout 1h;
        proxy_send_timeout 1h;
        # the router decides what is sent again
        proxy_next_upstream off;
    }}
}}
"""


def render_front(kind: str, router: Address, max_connections: int) -> str:
    """Return the configuration of a front."""
    text = HAPROXY if kind == "haproxy" else NGINX
    return text.format(address=router, connections=max_connections)
