"""Train recurrent networks with second-order (Hessian-free) optimization.

`__init__.pyi` lists the public names. Each is imported when it is first used, so that `import hfrnn` and
`hfrnn --help` stay quick.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
