#include "conformance/kit/facts.h"

#include "absl/strings/str_cat.h"
#include "conformance/kit/steps.h"
#include "sdk/host/json.h"
#include "sdk/host/loader.h"

namespace backplane::conformance {

void ReportFacts(Kit& k) {
  const PJRT_Api& api = k.api();
  host::Json null_slots = host::Json::MakeArray(), extensions = host::Json::MakeArray(),
             attributes = host::Json::MakeObject();
  size_t slots = 0;
  for (const host::Slot& slot : host::AllSlots()) {
    if (slot.offset + sizeof(void*) > api.struct_size) continue;
    ++slots;
    if (*reinterpret_cast<void* const*>(reinterpret_cast<const char*>(&api) + slot.offset) == nullptr)
      null_slots.Push(slot.name);
  }
  int seen = 0;
  for (const PJRT_Extension_Base* e = api.extension_start; e != nullptr && ++seen < 256; e = e->next) {
    extensions.Push(host::ExtensionName(e->type));
  }
  std::string platform, version;
  size_t devices = 0;
  k.Initialize();
  if (k.Has(&PJRT_Api::PJRT_Plugin_Attributes)) {
    KIT_ARGS(k, a, PJRT_Plugin_Attributes);
    if (KIT_TRY(k, PJRT_Plugin_Attributes, a).ok()) {
      const auto values = host::CopyNamedValues(a.attributes, a.num_attributes);
      if (values.ok()) {
        for (const host::NamedValue& v : *values) attributes.Set(v.name, v.FormatValue());
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
  k.Note(host::Json::MakeObject()
             .Set("api", absl::StrCat(api.pjrt_api_version.major_version, ".", api.pjrt_api_version.minor_version))
             .Set("table_bytes", api.struct_size)
             .Set("slots", slots)
             .Set("null_slots", std::move(null_slots))
             .Set("extensions", std::move(extensions))
             .Set("platform", platform)
             .Set("platform_version", version)
             .Set("devices", devices)
             .Set("attributes", std::move(attributes))
             .Text());
}

}  // namespace backplane::conformance
