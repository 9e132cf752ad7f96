"""The five variables of a pod template: text in, text out.

A text is read once into a `Template` (`lexer.py`) and filled in from a `Scope` that knows the job (`substitution.py`). What differs from
rank to rank is left out with a `Stencil` (`stencil.py`), so that a thousand bodies cost one reading and a thousand joins.

Users' text is data here. It is never evaluated, and never read a second time after something was inserted.
"""

from genericjob.templating.lexer import Form, Template, Variable, parse
from genericjob.templating.stencil import Stencil
from genericjob.templating.substitution import Filled, Scope, substitute

__all__ = ["Filled", "Form", "Scope", "Stencil", "Template", "Variable", "parse", "substitute"]
