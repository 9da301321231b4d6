// The chain of extensions has no end.
#include "conformance/broken/forward.h"

BROKEN_PLUGIN {
  static PJRT_Extension_Base round = {PJRT_Extension_Base_STRUCT_SIZE, PJRT_Extension_Type_Example, nullptr};
  round.next = &round;
  table->extension_start = &round;
}
