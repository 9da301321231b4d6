#include "conformance/kit/case_run.h"

#include <algorithm>
#include <cstring>
#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "api/backplane_c_api.h"
#include "base/mutex.h"
#include "sdk/host/loader.h"

namespace backplane::conformance {
namespace {

std::string FormatStatus(const absl::Status& s) {
  return absl::StrCat(absl::StatusCodeToString(s.code()), ": ", s.message());
}

// Our plugins report what their compiler did.
std::vector<std::string> CompileLog(const host::LoadedExecutable& program) {
  const host::Plugin& plugin = program.plugin();
  using Log = Backplane_LoadedExecutable_CompileLog_Args;
  const auto* extension = plugin.Extension<Backplane_Extension>(
      BACKPLANE_EXTENSION_TYPE, offsetof(Backplane_Extension, loaded_executable_compile_log) + sizeof(void*));
  if (extension == nullptr || extension->loaded_executable_compile_log == nullptr) return {};
  Log args{};
  args.struct_size = Backplane_LoadedExecutable_CompileLog_Args_STRUCT_SIZE;
  args.executable = program.raw();
  if (!plugin.TakeError(extension->loaded_executable_compile_log(&args)).ok()) return {};
  return absl::StrSplit(absl::string_view(args.log, args.log_size), '\n', absl::SkipEmpty());
}

absl::StatusOr<host::HostArray> ToHostArray(const Array& array) {
  const std::optional<PJRT_Buffer_Type> type = host::ElementTypeByName(std::string(Info(array.type).name));
  if (!type) return absl::UnimplementedError(absl::StrCat("the C ABI has no arrays of ", Info(array.type).name));
  host::HostArray out{*type, array.dims, {}};
  out.data.resize(array.data.size());
  if (!array.data.empty()) std::memcpy(out.data.data(), array.data.data(), array.data.size());
  return out;
}

absl::StatusOr<Array> FromHostArray(const host::HostArray& array) {
  const std::string name = host::ElementTypeName(array.type);
  const std::optional<ElementType> type = ElementTypeFromName(name);
  if (!type) return absl::InvalidArgumentError(absl::StrCat("the result is an array of ", name));
  Array out{*type, array.dims, std::string(array.data.size(), '\0')};
  if (!array.data.empty()) std::memcpy(out.data.data(), array.data.data(), array.data.size());
  return out;
}

bool IsFeed(const HostTransfer& t) { return t.kind == HostTransfer::kInfeed || t.kind == HostTransfer::kOutfeed; }

// The host side of a program's sends, receives, infeeds and outfeeds. The handlers may be called on any thread until
// the program has finished.
class Transfers {
 public:
  // `feed` is the channel of infeed and outfeed, if the case uses them.
  Transfers(const Case& c, int64_t feed)
      : transfers_(c.transfers), got_(c.transfers.size()), done_(c.transfers.size()) {
    std::vector<host::SendHandler> send;
    std::vector<host::RecvHandler> recv;
    bool feeds = false;
    for (size_t i = 0; i < transfers_.size(); ++i) {
      const int64_t channel = transfers_[i].channel;
      if (IsFeed(transfers_[i])) {
        feeds = true;
        continue;
      }
      if (transfers_[i].kind == HostTransfer::kSend) {
        send.push_back({channel, [this, i](absl::Span<const std::byte> chunk, size_t, bool last) {
                          MutexLock lock(mu_);
                          got_[i].append(reinterpret_cast<const char*>(chunk.data()), chunk.size());
                          done_[i] = done_[i] || last;
                          return absl::OkStatus();
                        }});
      } else {
        recv.push_back({channel, [this, i](host::DeviceStream stream) { Give(i, stream); }});
      }
    }
    if (feeds) {
      // In the order in which the case lists them.
      send.push_back({feed, [this](absl::Span<const std::byte> chunk, size_t, bool last) {
                        MutexLock lock(mu_);
                        const size_t i = NextFeed(HostTransfer::kOutfeed);
                        if (i == transfers_.size()) return absl::OutOfRangeError("outfeed: more than the case lists");
                        got_[i].append(reinterpret_cast<const char*>(chunk.data()), chunk.size());
                        done_[i] = last;
                        return absl::OkStatus();
                      }});
      recv.push_back({feed, [this](host::DeviceStream stream) {
                        size_t i;
                        {
                          MutexLock lock(mu_);
                          i = NextFeed(HostTransfer::kInfeed);
                          if (i == transfers_.size()) return;  // ends the stream without data, so the program fails
                          done_[i] = true;
                        }
                        Give(i, stream);
                      }});
    }
    for (int d = 0; d < c.devices() && !transfers_.empty(); ++d) {
      options_.send.push_back(send);
      options_.recv.push_back(recv);
    }
  }
  const host::ExecuteOptions& Options() const { return options_; }

  // Compares what the program sent, after it has finished.
  absl::Status Check() {
    MutexLock lock(mu_);
    for (size_t i = 0; i < transfers_.size(); ++i) {
      const HostTransfer::Kind kind = transfers_[i].kind;
      const std::string channel = kind == HostTransfer::kInfeed    ? "infeed"
                                  : kind == HostTransfer::kOutfeed ? "outfeed"
                                                                   : absl::StrCat("channel ", transfers_[i].channel);
      if (!done_[i]) return absl::DataLossError(absl::StrCat(channel, ": the transfer did not take place"));
      if (kind != HostTransfer::kSend && kind != HostTransfer::kOutfeed) continue;
      const Expected& want = transfers_[i].value;
      const absl::Status s = conformance::Compare(want, Array{want.value.type, want.value.dims, got_[i]});
      if (!s.ok()) return absl::DataLossError(absl::StrCat(channel, ": ", s.message()));
    }
    return absl::OkStatus();
  }

 private:
  // Returns the first transfer of a kind that has not happened.
  size_t NextFeed(HostTransfer::Kind kind) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    size_t i = 0;
    while (i < transfers_.size() && (transfers_[i].kind != kind || done_[i])) ++i;
    return i;
  }
  // Returns all data of transfer i at once.
  void Give(size_t i, const host::DeviceStream& stream) {
    const std::string& data = transfers_[i].value.value.data;
    const absl::StatusOr<host::Event> event =
        stream.AddChunk({reinterpret_cast<const std::byte*>(data.data()), data.size()});
    const absl::Status s = event.ok() ? event->Await() : event.status();
    MutexLock lock(mu_);
    done_[i] = s.ok();
  }

  const std::vector<HostTransfer>& transfers_;
  host::ExecuteOptions options_;
  Mutex mu_;
  std::vector<std::string> got_ ABSL_GUARDED_BY(mu_);
  std::vector<bool> done_ ABSL_GUARDED_BY(mu_);
};

}  // namespace

absl::StatusOr<std::unique_ptr<CaseRunner>> CaseRunner::Create(const std::string& plugin_path,
                                                               const std::vector<host::NamedValue>& options) {
  const absl::StatusOr<const host::Plugin*> plugin = host::Plugin::Load(plugin_path);
  if (!plugin.ok()) return plugin.status();
  absl::StatusOr<host::Client> client = host::Client::Create(**plugin, options);
  if (!client.ok()) return client.status();
  const absl::StatusOr<std::vector<host::Device>> devices = client->AddressableDevices();
  if (!devices.ok()) return devices.status();
  auto runner = std::unique_ptr<CaseRunner>(new CaseRunner(*std::move(client), devices->size()));
  if (const absl::StatusOr<std::vector<host::NamedValue>> attributes = (*plugin)->Attributes(); attributes.ok()) {
    const host::NamedValue* feed = host::Find(*attributes, "feed_channel");
    if (feed != nullptr && std::holds_alternative<int64_t>(feed->value))
      runner->feed_channel_ = std::get<int64_t>(feed->value);
  }
  return runner;
}

absl::StatusOr<host::LoadedExecutable> CaseRunner::Load(const Case& c, Outcome* outcome) const {
  if (c.devices() > static_cast<int>(devices_)) {
    return absl::UnimplementedError(
        absl::StrCat("the case needs ", c.devices(), " devices, the client has ", devices_));
  }
  host::CompileOptions options;
  options.num_replicas = c.replicas;
  options.num_partitions = c.partitions;
  options.use_spmd_partitioning = c.partitions > 1;
  absl::StatusOr<host::LoadedExecutable> program =
      client_.Compile({c.format == ProgramFormat::kHlo ? "hlo" : "mlir", c.program}, options);
  if (program.ok()) outcome->compile_log = CompileLog(*program);
  return program;
}

absl::StatusOr<std::vector<std::vector<Array>>> CaseRunner::Execute(const host::LoadedExecutable& program,
                                                                    const Case& c) const {
  const absl::StatusOr<std::vector<host::Device>> devices = program.AddressableDevices();
  if (!devices.ok()) return devices.status();
  if (static_cast<int>(devices->size()) != c.devices()) {
    return absl::InternalError(
        absl::StrCat("the program was loaded on ", devices->size(), " devices, expected ", c.devices()));
  }
  std::vector<std::vector<host::Buffer>> buffers(devices->size());
  std::vector<std::vector<const host::Buffer*>> arguments(devices->size());
  for (size_t d = 0; d < devices->size(); ++d) {
    for (const Array& input : c.inputs[d]) {
      const absl::StatusOr<host::HostArray> array = ToHostArray(input);
      if (!array.ok()) return array.status();
      absl::StatusOr<host::Buffer> buffer = client_.ToDevice(*array, (*devices)[d]);
      if (!buffer.ok()) return buffer.status();
      buffers[d].push_back(*std::move(buffer));
    }
    for (const host::Buffer& buffer : buffers[d]) arguments[d].push_back(&buffer);
  }
  Transfers transfers(c, feed_channel_.value_or(0));
  const absl::StatusOr<host::ExecuteResult> result = program.Execute(arguments, transfers.Options());
  if (!result.ok()) return result.status();
  std::vector<std::vector<Array>> outputs(devices->size());
  for (size_t d = 0; d < devices->size(); ++d) {
    for (const host::Buffer& buffer : result->outputs[d]) {
      const absl::StatusOr<host::HostArray> array = buffer.ToHost();
      if (!array.ok()) return array.status();
      absl::StatusOr<Array> output = FromHostArray(*array);
      if (!output.ok()) return output.status();
      outputs[d].push_back(*std::move(output));
    }
  }
  if (absl::Status s = transfers.Check(); !s.ok()) return s;
  return outputs;
}

Outcome CaseRunner::Compile(const Case& c) const {
  Outcome outcome;
  const absl::StatusOr<host::LoadedExecutable> program = Load(c, &outcome);
  if (program.ok()) return outcome;
  outcome.kind = absl::IsUnimplemented(program.status()) ? Outcome::kUnsupported : Outcome::kFail;
  outcome.message = FormatStatus(program.status());
  return outcome;
}

Outcome CaseRunner::Run(const Case& c, bool labels) const {
  Outcome outcome;
  const auto end = [&](Outcome::Kind kind, std::string message) {
    outcome.kind = kind;
    outcome.message = std::move(message);
    return outcome;
  };
  const auto refused = [&](const absl::Status& s) {
    if (c.fails && labels && !c.fails->label.empty() &&
        !absl::StrContains(s.message(), absl::StrCat("[", c.fails->label, "]"))) {
      return end(Outcome::kFail, absl::StrCat("refused without [", c.fails->label, "]: ", FormatStatus(s)));
    }
    if (c.fails) return outcome;
    return end(absl::IsUnimplemented(s) ? Outcome::kUnsupported : Outcome::kFail, FormatStatus(s));
  };
  for (const HostTransfer& t : c.transfers) {
    if (IsFeed(t) && !feed_channel_)
      return end(Outcome::kUnsupported, "infeed and outfeed: the plugin names no feed_channel, the C ABI has neither");
  }
  const absl::StatusOr<host::LoadedExecutable> program = Load(c, &outcome);
  if (!program.ok()) {
    if (c.devices() > static_cast<int>(devices_)) return end(Outcome::kUnsupported, FormatStatus(program.status()));
    if (c.fails && c.fails->stage == Failure::kRun)
      return end(Outcome::kFail, absl::StrCat("does not compile: ", FormatStatus(program.status())));
    return refused(program.status());
  }
  if (c.fails && c.fails->stage == Failure::kCompile) return end(Outcome::kFail, "was accepted by the compiler");
  absl::StatusOr<std::vector<std::vector<Array>>> outputs = Execute(*program, c);
  if (!outputs.ok()) return refused(outputs.status());
  outcome.outputs = *std::move(outputs);
  if (c.fails) return end(Outcome::kFail, "ran");
  for (size_t d = 0; d < outcome.outputs.size(); ++d) {
    const std::string where = c.devices() > 1 ? absl::StrCat("device ", d, ": ") : "";
    const std::vector<Array>& got = outcome.outputs[d];
    if (got.size() != c.outputs[d].size()) {
      return end(Outcome::kFail, absl::StrCat(where, got.size(), " results, expected ", c.outputs[d].size()));
    }
    for (size_t i = 0; i < c.outputs[d].size(); ++i) {
      const absl::Status s = conformance::Compare(c.outputs[d][i], got[i]);
      if (!s.ok()) return end(Outcome::kFail, absl::StrCat(where, "result ", i, ": ", s.message()));
    }
  }
  return outcome;
}

}  // namespace backplane::conformance
