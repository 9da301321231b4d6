// The stored form of an executable: header, module, options, costs, object code. Everything is length-prefixed.
#include <cstring>

#include "absl/strings/str_cat.h"
#include "core/import/proto/hlo_proto.h"
#include "core/types/status_macros.h"
#include "sdk/engine/backend/executable.h"
#include "sdk/engine/backend/pipeline.h"

namespace backplane::engine {
namespace {

constexpr absl::string_view kMagic = "BPCPU001";

void Put(std::string& out, absl::string_view bytes) {
  const uint64_t n = bytes.size();
  out.append(reinterpret_cast<const char*>(&n), sizeof n);
  out.append(bytes.data(), bytes.size());
}

class Reader {
 public:
  explicit Reader(absl::string_view bytes) : rest_(bytes) {}
  absl::StatusOr<absl::string_view> Get(absl::string_view what) {
    uint64_t n = 0;
    if (rest_.size() < sizeof n) return Short(what);
    std::memcpy(&n, rest_.data(), sizeof n);
    rest_.remove_prefix(sizeof n);
    if (n > rest_.size()) return Short(what);
    absl::string_view bytes = rest_.substr(0, n);
    rest_.remove_prefix(n);
    return bytes;
  }
  bool empty() const { return rest_.empty(); }

 private:
  static absl::Status Short(absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("serialized executable: ", what, " is cut short"));
  }
  absl::string_view rest_;
};

}  // namespace

absl::StatusOr<std::string> EngineExecutable::Serialize() const {
  std::string out(kMagic);
  Put(out, jit::HostFingerprint());
  Put(out, fingerprint_);
  ASSIGN_OR_RETURN(std::string module, SerializeHloModule(program_->module()));
  Put(out, module);
  Put(out, SerializeCompileOptions(options_));
  for (const char* key : {"flops", "transcendentals", "bytes accessed"}) {
    auto at = cost_.find(key);
    const float* v = at == cost_.end() ? nullptr : std::get_if<float>(&at->second);
    const float value = v == nullptr ? 0 : *v;
    Put(out, absl::string_view(reinterpret_cast<const char*>(&value), sizeof value));
  }
  for (const jit::ObjectCode& o : program_->objects()) Put(out, o.bytes);
  return out;
}

absl::StatusOr<std::shared_ptr<Executable>> DeserializeEngineExecutable(absl::string_view bytes,
                                                                        CustomCallRegistry* custom_calls) {
  if (bytes.substr(0, kMagic.size()) != kMagic) {
    return absl::InvalidArgumentError("serialized executable: does not begin as one of this plugin and version");
  }
  Reader reader(bytes.substr(kMagic.size()));
  ASSIGN_OR_RETURN(absl::string_view host, reader.Get("host"));
  if (host != jit::HostFingerprint()) {
    return absl::FailedPreconditionError(
        absl::StrCat("serialized executable: compiled for ", host, ", this is ", jit::HostFingerprint()));
  }
  ASSIGN_OR_RETURN(absl::string_view fingerprint, reader.Get("fingerprint"));
  ASSIGN_OR_RETURN(absl::string_view proto, reader.Get("module"));
  ASSIGN_OR_RETURN(std::unique_ptr<Module> module, ParseHloModuleProto(proto));
  ASSIGN_OR_RETURN(absl::string_view option_bytes, reader.Get("options"));
  ASSIGN_OR_RETURN(CompileOptions options, ParseCompileOptions(option_bytes));
  module->config().num_replicas = options.num_replicas;
  module->config().num_partitions = options.num_partitions;
  NamedValues cost;
  for (const char* key : {"flops", "transcendentals", "bytes accessed"}) {
    ASSIGN_OR_RETURN(absl::string_view value, reader.Get(key));
    float v = 0;
    if (value.size() != sizeof v)
      return absl::InvalidArgumentError(absl::StrCat("serialized executable: ", key, " has ", value.size(), " bytes"));
    std::memcpy(&v, value.data(), sizeof v);
    cost[key] = v;
  }
  std::vector<jit::ObjectCode> objects;
  while (!reader.empty()) {
    ASSIGN_OR_RETURN(absl::string_view object, reader.Get("object code"));
    objects.push_back({std::string(object)});
  }
  ProgramOptions program_options = OptionsForRuntime(custom_calls);
  program_options.objects = &objects;
  std::vector<std::string> log = {"loaded from serialized form"};
  ASSIGN_OR_RETURN(std::unique_ptr<Program> program, Program::Build(std::move(module), program_options, &log));
  return std::make_shared<EngineExecutable>(std::move(program), std::move(options), std::move(cost),
                                            std::string(fingerprint), std::move(log));
}

}  // namespace backplane::engine
