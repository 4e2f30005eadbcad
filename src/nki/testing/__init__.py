"""``nki.testing``: checks that kernels are right (``docs/training.md``, ``docs/verify.md``)."""

from nki.testing.gate import verify
from nki.testing.gradients import GradientReport, Worst, gradcheck
from nki.testing.verification import Check, Verification

__all__ = ["Check", "GradientReport", "Verification", "Worst", "gradcheck", "verify"]
