#include "sdk/cli/fuzz/wire.h"

#include <poll.h>
#include <sys/socket.h>

#include <chrono>

#include "sdk/cli/clock.h"

namespace backplane::cli::fuzz {
namespace {

bool WriteAll(int fd, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

Read ReadAll(int fd, char* to, size_t n, double deadline) {
  while (n > 0) {
    if (deadline >= 0) {
      const double left = deadline - Now();
      pollfd p{fd, POLLIN, 0};
      const int ready = left <= 0 ? 0 : poll(&p, 1, static_cast<int>(left * 1000) + 1);
      if (ready < 0 && errno == EINTR) continue;
      if (ready == 0) return Read::kLate;
    }
    const ssize_t got = recv(fd, to, n, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return Read::kEnded;
    to += got;
    n -= static_cast<size_t>(got);
  }
  return Read::kDone;
}

void Write(Writer& to, const Handling& h) {
  to.Numbers(h.host.minor_to_major);
  to.Number(h.host.gap);
  to.Numbers(h.host.tile);
  to.Number(h.host.kept);
  to.Numbers(h.device_order);
  to.Number(h.donated);
}

}  // namespace

bool WriteMessage(int fd, const std::string& message) {
  const int64_t size = static_cast<int64_t>(message.size());
  return WriteAll(fd, absl::string_view(reinterpret_cast<const char*>(&size), sizeof(size))) && WriteAll(fd, message);
}

Read ReadMessage(int fd, std::string* message, double deadline) {
  int64_t size = 0;
  if (const Read r = ReadAll(fd, reinterpret_cast<char*>(&size), sizeof(size), deadline); r != Read::kDone) return r;
  if (size < 0 || size > (int64_t{1} << 32)) return Read::kEnded;
  message->resize(static_cast<size_t>(size));
  return ReadAll(fd, message->data(), message->size(), deadline);
}

// Returns elements narrower than a byte in the core's form, extended to the byte. The bits that a plugin leaves above
// an element are not part of its value.
void ExtendNarrow(Literal& l) {
  const PrimitiveType type = l.shape().element_type();
  if (!IsIntegral(type) || !IsSubByte(type)) return;
  const int above = 8 - BitWidth(type);
  std::byte* at = l.mutable_bytes();
  for (int64_t i = 0; i < l.num_elements(); ++i) {
    const auto bits = static_cast<uint8_t>(std::to_integer<uint8_t>(at[i]) << above);
    at[i] = static_cast<std::byte>(IsSigned(type) ? static_cast<uint8_t>(static_cast<int8_t>(bits) >> above)
                                                  : static_cast<uint8_t>(bits >> above));
  }
}

std::vector<int64_t> RowMajorOrder(size_t rank) {
  std::vector<int64_t> order(rank);
  for (size_t d = 0; d < rank; ++d) order[d] = static_cast<int64_t>(rank - 1 - d);
  return order;
}

std::vector<int64_t> GetMinorToMajor(const Shape& shape) {
  return {shape.layout().minor_to_major.begin(), shape.layout().minor_to_major.end()};
}

std::vector<Handling> CollectHandling(const FuzzProgram& program) {
  const ModuleConfig& config = program.module->config();
  std::vector<Handling> all(program.arguments.size());
  for (size_t i = 0; i < all.size(); ++i) {
    const Shape& shape = program.arguments[i].shape();
    const size_t rank = static_cast<size_t>(shape.rank());
    if (i < program.host_orders.size()) {
      all[i].host = program.host_orders[i];
      // A shrinking step may have changed the rank of the array: dense then.
      if (all[i].host.minor_to_major.size() != rank) all[i].host.minor_to_major.clear();
      if (all[i].host.tile.size() > rank) all[i].host.tile.clear();
    }
    if (i < config.parameter_layouts.size()) {
      const Shape& asked = config.parameter_layouts[i];
      if (asked.has_layout()) {  // also if it is row-major, which is not every plugin's default
        all[i].device_order.assign(asked.layout().minor_to_major.begin(), asked.layout().minor_to_major.end());
      }
    }
  }
  for (const InputOutputAlias& a : config.input_output_aliases) all[static_cast<size_t>(a.parameter)].donated = true;
  for (const BufferDonor& d : config.buffer_donors) all[static_cast<size_t>(d.parameter)].donated = true;
  return all;
}

std::string FormatRequest(const FuzzProgram& program, absl::string_view format, absl::string_view code,
                          absl::Span<const std::string> helpers) {
  Writer request;
  request.Bytes(format);
  request.Bytes(code);
  const ModuleConfig& config = program.module->config();
  const Devices devices = GetDevices(*program.module);
  request.Number(devices.replicas);
  request.Number(devices.partitions);
  std::vector<Shape> results;
  if (config.result_layout.element_type() != PrimitiveType::kInvalid) {
    ForEachLeaf(config.result_layout, [&](const Shape& leaf, const std::vector<int64_t>&) { results.push_back(leaf); });
  }
  request.Number(static_cast<int64_t>(results.size()));
  for (const Shape& leaf : results) {
    request.Numbers(leaf.IsRowMajor() ? std::vector<int64_t>() : GetMinorToMajor(leaf));
  }
  request.Number(static_cast<int64_t>(helpers.size()));
  for (const std::string& helper : helpers) request.Bytes(helper);
  request.Number(static_cast<int64_t>(program.schedule.size()));
  for (const HostStep& step : program.schedule) {
    request.Number(static_cast<int64_t>(step.kind));
    request.Number(step.program);
    request.Numbers(step.buffers);
  }
  const std::vector<Handling> handling = CollectHandling(program);
  request.Number(static_cast<int64_t>(handling.size()));
  for (const Handling& h : handling) Write(request, h);
  for (int64_t d = 0; d < devices.count(); ++d) {
    for (const Literal& argument : program.arguments) request.Array(MakeDeviceArgument(argument, d));
  }
  return request.bytes();
}

}  // namespace backplane::cli::fuzz
