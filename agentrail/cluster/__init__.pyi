from agentrail.cluster.opened_cluster import end_cluster as end_cluster
from agentrail.cluster.opened_cluster import open_cluster as open_cluster
