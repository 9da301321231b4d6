// What the dispatcher keeps for one call beside Call.
#ifndef BACKPLANE_SDK_LAYERS_FRAME_H_
#define BACKPLANE_SDK_LAYERS_FRAME_H_

#include <cstddef>
#include <memory>

#include "absl/container/inlined_vector.h"

namespace backplane::layers {

struct ArgsCopy {
  char* host;  // the struct that was copied
  std::unique_ptr<char[]> copy, before;
  size_t size;
};

struct Frame {
  absl::InlinedVector<ArgsCopy, 2> copies;
  // Called when the target has answered, with whether it accepted.
  struct AtEnd {
    void (*run)(void* arg, bool accepted);
    void* arg;
  };
  absl::InlinedVector<AtEnd, 2> at_end;
};

}  // namespace backplane::layers

#endif  // BACKPLANE_SDK_LAYERS_FRAME_H_
