from agentrail.insight.account import Account as Account
from agentrail.insight.account import AccountEntry as AccountEntry
from agentrail.insight.account import why as why
from agentrail.insight.explanations import Explanation as Explanation
from agentrail.insight.explanations import PluginStep as PluginStep
from agentrail.insight.folding_rules import FoldingRule as FoldingRule
