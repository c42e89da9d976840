from agentrail.hooks.plugin import MATRIX as MATRIX
