// The source for which the precompiled headers are built (BackplaneTargets.cmake).
