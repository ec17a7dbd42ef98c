"""The attacker's audit: what can be worked out from a published table, and by which equations."""

from sfumato.tables.audit.audit import audit
from sfumato.tables.audit.certificate import Certificate
from sfumato.tables.audit.insiders import Insider
from sfumato.tables.audit.knowledge import Knowledge
from sfumato.tables.audit.result import Audit

__all__ = ["Audit", "Certificate", "Insider", "Knowledge", "audit"]
