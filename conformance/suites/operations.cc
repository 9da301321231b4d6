// Operations: compiles, runs and compares each case of the case files.
#include <algorithm>
#include <map>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "conformance/kit/case_file.h"
#include "conformance/kit/profile.h"
#include "conformance/kit/steps.h"
#include "conformance/suites/suites.h"

namespace backplane::conformance {
namespace {

constexpr absl::string_view kPrefix = "operations.";

std::string Folder(const std::string& data) { return data + "/cases/ops"; }

PJRT_Buffer_Type TypeOfCase(Kit& k, ElementType type) {
  const auto known = host::ElementTypeByName(Info(type).name);
  k.Require(known.has_value(), "no PJRT type for ", Info(type).name);
  return *known;
}

ElementType TypeOfResult(Kit& k, PJRT_Buffer_Type type) {
  const auto known = ElementTypeFromName(host::ElementTypeName(type));
  k.Require(known.has_value(), "a result has the element type ", host::ElementTypeName(type));
  return *known;
}

// Whether the plugin supports the program format; otherwise the case says nothing about the operation.
void NeedForm(Kit& k, ProgramFormat format) {
  static std::map<ProgramFormat, Err> tried;
  if (tried.count(format) == 0) {
    PJRT_LoadedExecutable* loaded = nullptr;
    const bool text = format == ProgramFormat::kStablehlo;
    tried[format] = TryCompile(k, text ? kAdd : "HloModule m\n\nENTRY main {\n  ROOT x = f32[4]{0} parameter(0)\n}\n",
                               text ? "mlir" : "hlo", PlainOptions(k).Serialize(), &loaded);
    if (loaded != nullptr) Destroy(k, loaded);
  }
  const Err& e = tried[format];
  if (!e.ok())
    k.Unsupported("takes no ", format == ProgramFormat::kStablehlo ? "StableHLO" : "HLO", " as text: ", FormatError(e));
}

// The data of each channel that a program sends to or receives from.
struct Channels {
  struct Traffic {
    Kit* kit;
    const HostTransfer* transfer;
    std::string got;  // data of a send
  };
  std::vector<std::unique_ptr<Traffic>> all;
};

PJRT_Error* OnSend(PJRT_Chunk* chunk, PJRT_CallbackError*, size_t, bool, void* arg) {
  auto* traffic = static_cast<Channels::Traffic*>(arg);
  traffic->got.append(static_cast<const char*>(chunk->data), chunk->size);
  if (chunk->deleter != nullptr) chunk->deleter(chunk->data, chunk->deleter_arg);
  return nullptr;
}

void OnRecv(PJRT_CopyToDeviceStream* stream, void* arg) {
  auto* traffic = static_cast<Channels::Traffic*>(arg);
  Kit& k = *traffic->kit;
  const std::string& bytes = traffic->transfer->value.value.data;
  PJRT_Chunk chunk{};
  auto* copy = new std::string(bytes);
  chunk.data = copy->data();
  chunk.size = copy->size();
  chunk.deleter = [](void*, void* owner) { delete static_cast<std::string*>(owner); };
  chunk.deleter_arg = copy;
  KIT_ARGS(k, a, PJRT_CopyToDeviceStream_AddChunk);
  a.stream = stream;
  a.chunk = &chunk;
  KIT_OK(k, PJRT_CopyToDeviceStream_AddChunk, a);
  if (a.transfer_complete != nullptr) Destroy(k, a.transfer_complete);
  KIT_ARGS(k, d, PJRT_CopyToDeviceStream_Destroy);
  d.stream = stream;
  KIT_OK(k, PJRT_CopyToDeviceStream_Destroy, d);
}

// Creates an input buffer. An element type that the plugin does not have is no failure of the operation.
PJRT_Buffer* Input(Kit& k, const Array& array, PJRT_Device* device) {
  const PJRT_Buffer_Type type = TypeOfCase(k, array.type);
  char nothing = 0;
  PJRT_Client_BufferFromHostBuffer_Args a =
      PutArgs(k, type, array.dims, array.data.empty() ? &nothing : array.data.data(), device);
  const Err e = KIT_TRY(k, PJRT_Client_BufferFromHostBuffer, a);
  if (e.code == PJRT_Error_Code_UNIMPLEMENTED)
    k.Unsupported("no buffers of ", Info(array.type).name, ": ", FormatError(e));
  k.Require(e.ok(), "an argument of ", FormatShape(array.type, array.dims), ": ", FormatError(e));
  Await(k, a.done_with_host_buffer, "done_with_host_buffer");
  return a.buffer;
}

// The program must be rejected. The messages of our plugins must contain the label of the rule.
void ExpectRejection(Kit& k, const Case& c, const Err& e, absl::string_view when) {
  k.Require(!e.message.empty(), "refused ", when, " with ", CodeName(e.code), " but without a message");
  if (k.setup().strict && !c.fails->label.empty()) {
    k.Require(absl::StrContains(e.message, absl::StrCat("[", c.fails->label, "]")), "refused ", when,
              ", but the message has no [", c.fails->label, "]: ", FormatError(e));
  }
  k.Note(FormatError(e));
}

void RunCase(Kit& k, const Case& c) {
  for (const HostTransfer& t : c.transfers) {
    if (t.kind == HostTransfer::kInfeed || t.kind == HostTransfer::kOutfeed)
      k.Skip("the PJRT C API has no call for infeed and outfeed");
  }
  NeedForm(k, c.format);
  if (static_cast<size_t>(c.devices()) > k.devices().size())
    k.Skip("needs ", c.devices(), " devices, there are ", k.devices().size());
  host::CompileOptions options = PlainOptions(k);
  options.num_replicas = c.replicas;
  options.num_partitions = c.partitions;
  PJRT_LoadedExecutable* loaded = nullptr;
  Err e =
      TryCompile(k, c.program, c.format == ProgramFormat::kStablehlo ? "mlir" : "hlo", options.Serialize(), &loaded);
  if (e.code == PJRT_Error_Code_UNIMPLEMENTED && !c.fails) k.Unsupported(FormatError(e));
  if (c.fails && !e.ok()) return ExpectRejection(k, c, e, "when it was compiled");
  k.Require(e.ok(), "PJRT_Client_Compile: ", FormatError(e));
  if (c.fails && c.fails->stage == Failure::kCompile && k.setup().strict)
    k.Fail("compiles, though it breaks ", c.fails->label);

  Launch launch;
  launch.executable = loaded;
  KIT_ARGS(k, d, PJRT_LoadedExecutable_AddressableDevices);
  d.executable = loaded;
  KIT_OK(k, PJRT_LoadedExecutable_AddressableDevices, d);
  k.Require(d.num_addressable_devices == static_cast<size_t>(c.devices()), "a program for ", c.devices(),
            " devices is said to run on ", d.num_addressable_devices);
  for (int device = 0; device < c.devices(); ++device) {
    launch.arguments.emplace_back();
    for (const Array& array : c.inputs[static_cast<size_t>(device)])
      launch.arguments.back().push_back(Input(k, array, d.addressable_devices[device]));
  }
  Channels channels;
  if (!c.transfers.empty()) {
    launch.sends.resize(static_cast<size_t>(c.devices()));
    launch.recvs.resize(static_cast<size_t>(c.devices()));
    for (const HostTransfer& t : c.transfers) {
      channels.all.push_back(std::make_unique<Channels::Traffic>(Channels::Traffic{&k, &t, ""}));
      if (t.kind == HostTransfer::kSend)
        launch.sends[0].push_back({t.channel, channels.all.back().get(), OnSend});
      else
        launch.recvs[0].push_back({t.channel, channels.all.back().get(), OnRecv});
    }
  }
  e = TryExecute(k, &launch);
  if (e.code == PJRT_Error_Code_UNIMPLEMENTED && !c.fails) k.Unsupported(FormatError(e));
  if (c.fails && !e.ok()) return ExpectRejection(k, c, e, "when it ran");
  k.Require(e.ok(), "PJRT_LoadedExecutable_Execute: ", FormatError(e));
  // Launches all devices first, because they may wait for each other.
  for (const auto& outputs : launch.outputs) {
    for (PJRT_Buffer* out : outputs) {
      e = Outcome(k, ReadyEvent(k, out));
      if (e.code == PJRT_Error_Code_UNIMPLEMENTED && !c.fails) k.Unsupported(FormatError(e));
      if (c.fails && !e.ok()) return ExpectRejection(k, c, e, "when it ran");
      k.Require(e.ok(), "a result: ", FormatError(e));
    }
  }
  if (c.fails) k.Fail("runs, though it breaks ", c.fails->label);
  for (size_t device = 0; device < launch.outputs.size(); ++device) {
    const std::string where = c.devices() > 1 ? absl::StrCat("device ", device, ", ") : "";
    const auto& expected = c.outputs[device];
    k.Require(launch.outputs[device].size() == expected.size(), where, launch.outputs[device].size(),
              " results, expected ", expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      PJRT_Buffer* out = launch.outputs[device][i];
      Array actual;
      actual.type = TypeOfResult(k, GetType(k, out));
      actual.dims = GetDims(k, out);
      actual.data = Get(k, out);
      const absl::Status same = Compare(expected[i], actual);
      k.Require(same.ok(), where, "result ", i, ": ", same.message());
      Destroy(k, out);
    }
  }
  for (const auto& traffic : channels.all) {
    if (traffic->transfer->kind != HostTransfer::kSend) continue;
    Array actual{traffic->transfer->value.value.type, traffic->transfer->value.value.dims, traffic->got};
    const absl::Status same = Compare(traffic->transfer->value, actual);
    k.Require(same.ok(), "what was sent on channel ", traffic->transfer->channel, ": ", same.message());
  }
  for (const auto& arguments : launch.arguments) {
    for (PJRT_Buffer* b : arguments) Destroy(k, b);
  }
  Destroy(k, loaded);
}

std::string EvaluateMeaning(const Case& c) {
  std::string rows;
  for (const std::string& row : c.covers) absl::StrAppend(&rows, rows.empty() ? "" : ", ", row);
  return absl::StrCat(
      rows, c.fails ? absl::StrCat(": must be refused", c.fails->label.empty() ? "" : " by ", c.fails->label) : "",
      ", from ", c.source);
}

}  // namespace

absl::StatusOr<std::vector<OperationCase>> CollectOperationCases(const std::string& data) {
  std::vector<OperationCase> found;
  for (const std::string& name : ListNames(Folder(data), ".case")) {
    auto cases = ReadCaseFile(absl::StrCat(Folder(data), "/", name, ".case"));
    if (!cases.ok()) return cases.status();
    for (const Case& c : *cases) found.push_back({absl::StrCat(kPrefix, c.name), EvaluateMeaning(c)});
  }
  return found;
}

void RunOperation(Kit& k, const std::string& id) {
  // The parsed case files of a process.
  static auto* files = new std::map<std::string, std::vector<Case>>;
  const std::string name = id.substr(kPrefix.size()), file = name.substr(0, name.find('/'));
  if (files->count(file) == 0) {
    auto cases = ReadCaseFile(absl::StrCat(Folder(k.setup().data), "/", file, ".case"));
    k.Require(cases.ok(), "the kit's own case file: ", cases.ok() ? "" : cases.status().message());
    (*files)[file] = *std::move(cases);
  }
  const auto& cases = (*files)[file];
  const auto found = std::find_if(cases.begin(), cases.end(), [&](const Case& c) { return c.name == name; });
  k.Require(found != cases.end(), "no such case");
  RunCase(k, *found);
}

}  // namespace backplane::conformance
