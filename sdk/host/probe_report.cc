#include "sdk/host/probe_report.h"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "sdk/host/client.h"
#include "sdk/host/status.h"

namespace backplane::host {
namespace {

Json Value(const NamedValue& v) {
  if (const auto* text = std::get_if<std::string>(&v.value)) return Json(*text);
  if (const auto* number = std::get_if<int64_t>(&v.value)) return Json(*number);
  if (const auto* real = std::get_if<float>(&v.value)) return Json(static_cast<double>(*real));
  if (const auto* flag = std::get_if<bool>(&v.value)) return Json(*flag);
  Json list = Json::MakeArray();
  for (int64_t number : std::get<std::vector<int64_t>>(v.value)) list.Push(number);
  return list;
}

template <typename T>
void SetIfOk(Json* object, absl::string_view name, const absl::StatusOr<T>& value) {
  if (value.ok()) object->Set(name, Json(*value));
}

Json DeviceFacts(const Device& device) {
  Json facts = Json::MakeObject();
  if (absl::StatusOr<DeviceDescription> description = device.Description(); description.ok()) {
    SetIfOk(&facts, "id", description->Id());
    SetIfOk(&facts, "kind", description->Kind());
    SetIfOk(&facts, "text", description->ToString());
    if (auto attributes = description->Attributes(); attributes.ok()) facts.Set("attributes", ToJson(*attributes));
  }
  SetIfOk(&facts, "addressable", device.IsAddressable());
  if (absl::StatusOr<std::vector<Memory>> memories = device.AddressableMemories(); memories.ok()) {
    Json kinds = Json::MakeArray();
    for (const Memory& memory : *memories) {
      if (absl::StatusOr<std::string> kind = memory.Kind(); kind.ok()) kinds.Push(*kind);
    }
    facts.Set("memories", std::move(kinds));
  }
  return facts;
}

Json One(absl::string_view name, Json value) { return Json::MakeObject().Set(name, std::move(value)); }

}  // namespace

Json ToJson(absl::Span<const NamedValue> values) {
  Json object = Json::MakeObject();
  for (const NamedValue& v : values) object.Set(v.name, Value(v));
  return object;
}

Json DescribeTable(const Plugin& plugin) {
  Json facts = Json::MakeObject();
  facts.Set("api_version", Json(Json::Array{Json(plugin.major_version()), Json(plugin.minor_version())}));
  facts.Set("table_size", plugin.table_size());
  Json missing = Json::MakeArray();
  for (const Slot& slot : AllSlots()) {
    if (!plugin.HasSlot(slot)) missing.Push(slot.name);
  }
  const size_t known = AllSlots().size(), absent = missing.array()->size();
  Json slots = Json::MakeObject();
  slots.Set("known", known).Set("present", known - absent).Set("missing", std::move(missing));
  facts.Set("slots", std::move(slots));
  Json extensions = Json::MakeArray();
  for (const ExtensionInfo& e : plugin.extensions()) {
    extensions.Push(
        Json::MakeObject().Set("type", e.type).Set("name", ExtensionName(e.type)).Set("struct_size", e.struct_size));
  }
  return facts.Set("extensions", std::move(extensions));
}

absl::Status ProbeInThisProcess(const std::string& library, bool create_client,
                                absl::Span<const NamedValue> create_options,
                                const std::function<void(const Json&)>& tell) {
  tell(One("stage", "open"));
  BP_ASSIGN_OR_RETURN(const Plugin* plugin, Plugin::Load(library));
  tell(One("facts", DescribeTable(*plugin)));
  tell(One("stage", "initialize"));
  BP_RETURN_IF_ERROR(plugin->Initialize());
  tell(One("stage", "attributes"));
  absl::StatusOr<std::vector<NamedValue>> attributes = plugin->Attributes();
  if (absl::IsUnimplemented(attributes.status())) attributes.emplace();  // a plugin need not have any
  BP_RETURN_IF_ERROR(attributes.status());
  tell(One("facts", One("attributes", ToJson(*attributes))));
  if (create_client) {
    tell(One("stage", "client"));
    absl::StatusOr<Client> created = Client::Create(*plugin, create_options);
    if (!created.ok()) return AddContext(created.status(), absl::StrCat(library, ": no client"));
    const Client client = *std::move(created);
    tell(One("stage", "devices"));
    Json facts = Json::MakeObject();
    SetIfOk(&facts, "platform_name", client.PlatformName());
    SetIfOk(&facts, "platform_version", client.PlatformVersion());
    SetIfOk(&facts, "process_index", client.ProcessIndex());
    BP_ASSIGN_OR_RETURN(std::vector<Device> devices, client.Devices());
    Json list = Json::MakeArray();
    for (const Device& device : devices) list.Push(DeviceFacts(device));
    facts.Set("devices", std::move(list));
    tell(One("facts", std::move(facts)));
  }
  tell(One("stage", "done"));
  return absl::OkStatus();
}

int ProbeMain(int argc, char** argv) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // if the parent has ended, nothing reads the result
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  int fd = 1;
  bool create_client = true;
  std::vector<NamedValue> options;
  std::string library;
  for (int i = 1; i < argc; ++i) {
    absl::string_view word = argv[i];
    if (absl::ConsumePrefix(&word, "--fd=")) {
      if (!absl::SimpleAtoi(word, &fd)) return 2;
    } else if (word == "--no-client") {
      create_client = false;
    } else if (absl::ConsumePrefix(&word, "--option=")) {
      absl::StatusOr<NamedValue> option = ParseNamedValue(word);
      if (!option.ok()) return 2;
      options.push_back(*std::move(option));
    } else {
      library = std::string(word);
    }
  }
  auto tell = [fd](const Json& record) {
    const std::string line = absl::StrCat(record.Text(), "\n");
    for (size_t at = 0; at < line.size();) {
      const ssize_t n = write(fd, line.data() + at, line.size() - at);
      if (n <= 0) return;
      at += static_cast<size_t>(n);
    }
  };
  const absl::Status status = ProbeInThisProcess(library, create_client, options, tell);
  tell(One("status", Json::MakeObject()
                         .Set("code", static_cast<int>(status.code()))
                         .Set("message", absl::string_view(status.message()))));
  // Skips the destructors of the plugin, which may hang or crash. Everything has been reported.
  _exit(0);
}

}  // namespace backplane::host
