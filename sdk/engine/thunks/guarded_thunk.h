// Finds steps that write past the end of their workspace, for campaigns of random programs. The workspace of a program
// is as large as that of its largest step, so a step that needs more than it says may damage nothing in one program,
// and the heap in another.
#ifndef BACKPLANE_SDK_ENGINE_THUNKS_GUARDED_THUNK_H_
#define BACKPLANE_SDK_ENGINE_THUNKS_GUARDED_THUNK_H_

#include "sdk/engine/thunks/thunk.h"

namespace backplane::engine {

// If the environment variable BACKPLANE_GUARD_WORKSPACES is set, and not to 0, replaces each step by one that fills the
// bytes behind the step's workspace before it runs and compares them afterwards. A step that changed them returns
// Internal. Does not enter sequences within steps: whoever makes a loop or a conditional guards those.
void GuardWorkspaces(ThunkSequence& sequence);

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_THUNKS_GUARDED_THUNK_H_
