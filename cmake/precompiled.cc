// The source that precompiled headers are built beside (BackplaneTargets.cmake).
