from agentrail.adapters.mcp import McpServer as McpServer
from agentrail.adapters.mcp.login import sign_in as sign_in
from agentrail.adapters.mcp.oauth import OAuth as OAuth
from agentrail.adapters.mcp.sign_in import Browser as Browser
