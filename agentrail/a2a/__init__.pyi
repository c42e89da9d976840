from agentrail.a2a.a2a_face import A2aFace as A2aFace
