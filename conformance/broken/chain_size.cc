// An extension does not state its size.
#include "conformance/broken/forward.h"

BROKEN_PLUGIN {
  static PJRT_Extension_Base element = {0, PJRT_Extension_Type_Example, nullptr};
  element.next = table->extension_start;
  table->extension_start = &element;
}
