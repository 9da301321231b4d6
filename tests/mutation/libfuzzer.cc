// A reader as a libFuzzer target. BACKPLANE_READER is its name.
#include <cstddef>
#include <cstdint>

#include "tests/mutation/readers.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const backplane::mutation::Reader* const reader = backplane::mutation::FindReader(BACKPLANE_READER);
  reader->read({reinterpret_cast<const char*>(data), size}).IgnoreError();
  return 0;
}
