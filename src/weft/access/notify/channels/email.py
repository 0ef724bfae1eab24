"""Send a message by SMTP. `{user}` in the address is the user whose job the message is about."""

from __future__ import annotations

import json
import re
import smtplib
import ssl
from email.message import EmailMessage
from typing import Any, Final

from weft.access.notify.delivery import NotDelivered
from weft.access.notify.targets import Target, secret_of

_USER: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
MAX_SUBJECT_CHARS: Final = 200


def send(target: Target, message: dict[str, Any], timeout_s: float) -> None:
    mail = compose(target, message)
    try:
        _deliver(target, mail, timeout_s)
    except smtplib.SMTPRecipientsRefused as error:
        codes = [code for code, _ in error.recipients.values()]
        raise NotDelivered(f"the mail server refuses {mail['To']}", permanent=all(c >= 500 for c in codes)) from None
    except smtplib.SMTPResponseException as error:
        said = error.smtp_error.decode("utf-8", "replace") if isinstance(error.smtp_error, bytes) else error.smtp_error
        why = f"the mail server answered {error.smtp_code} {said[:200]}"
        raise NotDelivered(why, permanent=error.smtp_code >= 500) from None
    except (smtplib.SMTPException, OSError) as error:
        raise NotDelivered(f"{type(error).__name__}: {error}") from None


def compose(target: Target, message: dict[str, Any]) -> EmailMessage:
    """Return the mail. Its Message-ID follows from the message, so that a second delivery can be recognised."""
    to, user = target.options["to"], str(_user_of(message))
    if "{user}" in to:
        if not _USER.fullmatch(user):
            raise NotDelivered(f"no mail can be sent to the user {user[:80]!r}", permanent=True)
        to = to.replace("{user}", user)
    mail = EmailMessage()
    mail["To"] = to
    mail["From"] = target.options["from"] or to
    mail["Subject"] = f"[weft] {message['message']}"[:MAX_SUBJECT_CHARS].replace("\n", " ")
    mail["Message-ID"] = f"<{re.sub(r'[^A-Za-z0-9.-]', '.', message['id'])}@weft.{message['scheduler']}>"
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content(f"{message['message']}\n\n{json.dumps(message, indent=2)}\n")
    return mail


def _user_of(message: dict[str, Any]) -> object:
    about = next((message[key] for key in ("job", "array", "group") if key in message), message)
    return about.get("user", "")


def _deliver(target: Target, mail: EmailMessage, timeout_s: float) -> None:
    options = target.options
    host, port = options["host"], int(options["port"])
    if options["security"] == "tls":
        server: smtplib.SMTP = smtplib.SMTP_SSL(host, port, timeout=timeout_s, context=ssl.create_default_context())
    else:
        server = smtplib.SMTP(host, port, timeout=timeout_s)
    with server:
        if options["security"] == "starttls":
            server.starttls(context=ssl.create_default_context())
        if options["user"]:
            server.login(options["user"], secret_of(options["password_file"]))
        server.send_message(mail)
