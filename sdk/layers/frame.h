// The data that the dispatcher keeps for one call in addition to Call.
#ifndef BACKPLANE_SDK_LAYERS_FRAME_H_
#define BACKPLANE_SDK_LAYERS_FRAME_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/container/inlined_vector.h"

namespace backplane::layers {

struct ArgsCopy {
  char* host = nullptr;          // the struct that was copied
  char* bytes = nullptr;         // the copy, followed by the copy as its layer left it
  size_t size = 0;               // of one copy
  std::unique_ptr<char[]> heap;  // owns `bytes` if they do not fit in the frame
  struct Field {
    uint32_t offset, size;
    bool written = false;  // whether the target has written it; valid in After
  };
  // Fields that a layer has filled with a pattern, to see whether the target writes them. A field that is written is
  // copied to the host's struct; otherwise the host's field stays as it was.
  absl::InlinedVector<Field, 6> fields;
};

struct Frame {
  const void* caller = nullptr;  // the return address of the host's call
  const void* cfa = nullptr;     // the address of the first argument on the stack, if the call had any there
  absl::InlinedVector<ArgsCopy, 2> copies;
  // Space for copies. Most are small, and most calls that `validate` examines closely have one.
  static constexpr size_t kBufferSize = 512;
  size_t buffer_used = 0;
  alignas(16) char buffer[kBufferSize];
  Frame() {}  // does not initialize `buffer`
  // Functions that run when the target has returned, with whether it succeeded.
  struct AtEnd {
    void (*run)(void* arg, bool accepted);
    void* arg;
  };
  absl::InlinedVector<AtEnd, 2> at_end;
};

}  // namespace backplane::layers

#endif  // BACKPLANE_SDK_LAYERS_FRAME_H_
