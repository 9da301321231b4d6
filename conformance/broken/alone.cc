// A process that is one of several does not meet the others.
#include <vector>

#include "conformance/broken/forward.h"

using backplane::broken::real;

BROKEN_PLUGIN {
  table->PJRT_Client_Create = [](PJRT_Client_Create_Args* args) {
    std::vector<PJRT_NamedValue> kept;
    for (size_t i = 0; i < args->num_options; ++i) {
      const std::string name(args->create_options[i].name, args->create_options[i].name_size);
      if (name != "node_id" && name != "num_nodes") kept.push_back(args->create_options[i]);
    }
    PJRT_Client_Create_Args alone = *args;
    alone.create_options = kept.data();
    alone.num_options = kept.size();
    PJRT_Error* error = real->PJRT_Client_Create(&alone);
    args->client = alone.client;
    return error;
  };
}
