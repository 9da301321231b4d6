#include "conformance/kit/facts.h"

#include "absl/strings/str_join.h"
#include "conformance/kit/json.h"
#include "conformance/kit/steps.h"
#include "sdk/host/loader.h"

namespace backplane::conformance {

void TellFacts(Kit& k) {
  const PJRT_Api& api = k.api();
  std::vector<std::string> null_slots, extensions, attributes;
  size_t slots = 0;
  for (const host::Slot& slot : host::AllSlots()) {
    if (slot.offset + sizeof(void*) > api.struct_size) continue;
    ++slots;
    if (*reinterpret_cast<void* const*>(reinterpret_cast<const char*>(&api) + slot.offset) == nullptr)
      null_slots.push_back(JsonQuote(slot.name));
  }
  int seen = 0;
  for (const PJRT_Extension_Base* e = api.extension_start; e != nullptr && ++seen < 256; e = e->next) {
    extensions.push_back(JsonQuote(host::ExtensionName(e->type)));
  }
  std::string platform, version;
  size_t devices = 0;
  k.Initialize();
  if (k.Has(&PJRT_Api::PJRT_Plugin_Attributes)) {
    KIT_ARGS(k, a, PJRT_Plugin_Attributes);
    if (KIT_TRY(k, PJRT_Plugin_Attributes, a).ok()) {
      const auto values = host::CopyNamedValues(a.attributes, a.num_attributes);
      if (values.ok()) {
        for (const host::NamedValue& v : *values)
          attributes.push_back(absl::StrCat(JsonQuote(v.name), ": ", JsonQuote(v.ValueText())));
      }
    }
  }
  devices = k.devices().size();
  {
    KIT_ARGS(k, a, PJRT_Client_PlatformName);
    a.client = k.client();
    if (KIT_TRY(k, PJRT_Client_PlatformName, a).ok()) platform.assign(a.platform_name, a.platform_name_size);
  }
  {
    KIT_ARGS(k, a, PJRT_Client_PlatformVersion);
    a.client = k.client();
    if (KIT_TRY(k, PJRT_Client_PlatformVersion, a).ok()) version.assign(a.platform_version, a.platform_version_size);
  }
  k.Note(absl::StrCat("{\"api\": \"", api.pjrt_api_version.major_version, ".", api.pjrt_api_version.minor_version,
                      "\", \"table_bytes\": ", api.struct_size, ", \"slots\": ", slots, ", \"null_slots\": [",
                      absl::StrJoin(null_slots, ", "), "], \"extensions\": [", absl::StrJoin(extensions, ", "),
                      "], \"platform\": ", JsonQuote(platform), ", \"platform_version\": ", JsonQuote(version),
                      ", \"devices\": ", devices, ", \"attributes\": {", absl::StrJoin(attributes, ", "), "}}"));
}

}  // namespace backplane::conformance
