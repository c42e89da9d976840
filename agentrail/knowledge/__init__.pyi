from agentrail.knowledge.document import Document as Document
from agentrail.knowledge.embedder import Embedder as Embedder
from agentrail.knowledge.found import Found as Found
from agentrail.knowledge.knowledge_folder import KnowledgeFolder as KnowledgeFolder
from agentrail.knowledge.knowledge_store import Convert as Convert
from agentrail.knowledge.knowledge_store import Knowledge as Knowledge
from agentrail.knowledge.search_tools import knowledge_tools as knowledge_tools
from agentrail.plugins.quality.citations import citations_in as citations_in
