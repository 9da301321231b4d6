#include "sdk/host/compile_options.h"

#include <cstring>

namespace backplane::host {
namespace {

// Writes the protobuf wire format, as far as one message needs it. Field numbers are those of OpenXLA's
// compile_options.proto.
class Message {
 public:
  void Varint(int field, uint64_t value) {
    Raw(static_cast<uint64_t>(field) << 3);
    Raw(value);
  }
  void Flag(int field, bool value) {
    if (value) Varint(field, 1);
  }
  void Bytes(int field, absl::string_view bytes) {
    Raw(static_cast<uint64_t>(field) << 3 | 2);
    Raw(bytes.size());
    out_.append(bytes.data(), bytes.size());
  }
  void Double(int field, double value) {
    Raw(static_cast<uint64_t>(field) << 3 | 1);
    char bytes[8];
    std::memcpy(bytes, &value, 8);  // the wire format and all our targets are little-endian
    out_.append(bytes, 8);
  }
  void Raw(uint64_t v) {
    for (; v >= 0x80; v >>= 7) out_.push_back(static_cast<char>(v | 0x80));
    out_.push_back(static_cast<char>(v));
  }
  const std::string& str() const { return out_; }

 private:
  std::string out_;
};

}  // namespace

std::string CompileOptions::Serialize() const {
  Message build;
  build.Varint(1, static_cast<uint64_t>(static_cast<int64_t>(device_ordinal)));
  build.Varint(4, static_cast<uint64_t>(num_replicas));
  build.Varint(5, static_cast<uint64_t>(num_partitions));
  build.Flag(6, use_spmd_partitioning);
  if (!device_assignment.empty()) {
    Message assignment;
    assignment.Varint(1, static_cast<uint64_t>(num_replicas));
    assignment.Varint(2, static_cast<uint64_t>(num_partitions));
    for (int partition = 0; partition < num_partitions; ++partition) {
      Message ids, column;
      for (int replica = 0; replica < num_replicas; ++replica) {
        const size_t at = static_cast<size_t>(replica) * num_partitions + partition;
        ids.Raw(at < device_assignment.size() ? static_cast<uint64_t>(static_cast<int64_t>(device_assignment[at])) : 0);
      }
      column.Bytes(1, ids.str());
      assignment.Bytes(3, column.str());
    }
    build.Bytes(9, assignment.str());
  }
  build.Flag(19, use_shardy_partitioner);
  Message options;
  options.Flag(2, parameter_is_tupled_arguments);
  options.Bytes(3, build.str());
  options.Flag(4, compile_portable_executable);
  for (const NamedValue& o : overrides) {
    Message value, entry;
    if (const auto* text = std::get_if<std::string>(&o.value)) {
      value.Bytes(1, *text);
    } else if (const auto* flag = std::get_if<bool>(&o.value)) {
      value.Varint(2, *flag);
    } else if (const auto* number = std::get_if<int64_t>(&o.value)) {
      value.Varint(3, static_cast<uint64_t>(*number));
    } else if (const auto* real = std::get_if<float>(&o.value)) {
      value.Double(4, *real);
    } else {
      continue;
    }
    entry.Bytes(1, o.name);
    entry.Bytes(2, value.str());
    options.Bytes(7, entry.str());
  }
  return options.str();
}

}  // namespace backplane::host
