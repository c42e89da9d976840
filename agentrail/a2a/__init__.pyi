from agentrail.a2a.a2a_face import A2aFace as A2aFace
from agentrail.adapters.other_agents.agent_tool import A2aAgent as A2aAgent
