// What the dispatcher keeps for one call beside Call.
#ifndef BACKPLANE_SDK_LAYERS_FRAME_H_
#define BACKPLANE_SDK_LAYERS_FRAME_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/container/inlined_vector.h"

namespace backplane::layers {

struct ArgsCopy {
  char* host = nullptr;          // the struct that was copied
  char* bytes = nullptr;         // the copy, and after it the copy as it was when its layer had done with it
  size_t size = 0;               // of one
  std::unique_ptr<char[]> heap;  // where `bytes` are, when they are not in the frame
  struct Field {
    uint32_t offset, size;
    bool written = false;  // by the target; valid in After
  };
  // Fields that a layer filled with a pattern of its own, to see whether the target writes them. What is written goes
  // to the host as a whole; what is not leaves the host's field as it was.
  absl::InlinedVector<Field, 6> fields;
};

struct Frame {
  const void* caller = nullptr;  // where the host's call returns to
  const void* cfa = nullptr;     // the address of the first argument on the stack, had the call any there
  absl::InlinedVector<ArgsCopy, 2> copies;
  // Room for the bytes of copies: most are small, and there is one in most calls that `validate` looks at closely.
  static constexpr size_t kRoom = 512;
  size_t room_used = 0;
  alignas(16) char room[kRoom];
  Frame() {}  // leaves `room` as it is
  // Called when the target has answered, with whether it accepted.
  struct AtEnd {
    void (*run)(void* arg, bool accepted);
    void* arg;
  };
  absl::InlinedVector<AtEnd, 2> at_end;
};

}  // namespace backplane::layers

#endif  // BACKPLANE_SDK_LAYERS_FRAME_H_
