// The process in which the plugin runs.
#include <unistd.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/import/export/export.h"
#include "core/import/proto/hlo_proto.h"
#include "core/types/status_macros.h"
#include "sdk/cli/arrays.h"
#include "sdk/cli/execution.h"
#include "sdk/cli/fuzz/wire.h"
#include "sdk/host/loader.h"
#include "sdk/host/status.h"

namespace backplane::cli::fuzz {
namespace {

Handling ReadHandling(Reader& from) {
  Handling h;
  h.host.minor_to_major = from.Numbers();
  h.host.gap = from.Number();
  h.host.tile = from.Numbers();
  h.host.kept = from.Number() != 0;
  h.device_order = from.Numbers();
  h.donated = from.Number() != 0;
  return h;
}

// Creates a buffer on a device with a layout of the host's choice.
absl::StatusOr<host::Buffer> InLayout(const Session& session, const host::HostView& view, const host::Device& device,
                                      const std::vector<int64_t>& order, const std::vector<int64_t>& tile) {
  const host::Client& client = session.client;
  const host::Plugin& plugin = client.plugin();
  const size_t tile_rank = tile.size();
  BP_PJRT_ARGS(plugin, a, PJRT_Client_BufferFromHostBuffer);
  PJRT_Buffer_MemoryLayout layout = {};
  layout.struct_size = PJRT_Buffer_MemoryLayout_STRUCT_SIZE;
  layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
  layout.tiled.struct_size = PJRT_Buffer_MemoryLayout_Tiled_STRUCT_SIZE;
  layout.tiled.minor_to_major = order.data();
  layout.tiled.minor_to_major_size = order.size();
  layout.tiled.tile_dims = tile.data();
  layout.tiled.tile_dim_sizes = &tile_rank;
  layout.tiled.num_tiles = tile.empty() ? 0 : 1;
  a.client = client.raw();
  a.data = view.data;
  a.type = view.type;
  a.dims = view.dims.data();
  a.num_dims = view.dims.size();
  a.byte_strides = view.byte_strides.empty() ? nullptr : view.byte_strides.data();
  a.num_byte_strides = view.byte_strides.size();
  a.host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
  a.device = device.raw();
  a.device_layout = &layout;
  BP_RETURN_IF_ERROR(BP_PJRT_CALL(plugin, PJRT_Client_BufferFromHostBuffer, a));
  host::Buffer buffer(plugin, client.keep(), a.buffer);
  BP_RETURN_IF_ERROR(host::Event(plugin, client.keep(), a.done_with_host_buffer).Await());
  return buffer;
}

// The same by a program that returns its argument in that order, for plugins whose buffers have only one order when
// they are copied from the host.
absl::StatusOr<host::Buffer> ReturnedInOrder(const Session& session, const host::HostArray& array,
                                             const host::Device& device, const std::vector<int64_t>& order,
                                             const std::string& format) {
  ASSIGN_OR_RETURN(const Literal value, ToLiteral(array));
  Module module("in_order");
  Builder b(&module, "main");
  ASSIGN_OR_RETURN(const Value x, b.Parameter(0, value.shape().WithoutLayout()));
  ASSIGN_OR_RETURN(Computation * main, b.Build(x));
  module.set_entry(main);
  Shape wanted = value.shape();
  Layout layout;
  layout.minor_to_major.assign(order.begin(), order.end());
  wanted.set_layout(std::move(layout));
  module.config().result_layout = std::move(wanted);
  // In the form of the program itself: StableHLO expresses the row-major order only by leaving it out.
  ASSIGN_OR_RETURN(const std::string code,
                   format == "hlo" ? SerializeHloModule(module) : ExportPortableArtifact(module));
  ASSIGN_OR_RETURN(const int id, device.Id());
  host::CompileOptions options;
  options.device_assignment = {id};
  ASSIGN_OR_RETURN(const host::LoadedExecutable executable, CompileOn(session, {format, code}, options, Layouts::kAll));
  ASSIGN_OR_RETURN(const host::Buffer argument, session.client.ToDevice(array, device));
  ASSIGN_OR_RETURN(std::vector<host::Buffer> results,
                   executable.Execute(absl::Span<const host::Buffer* const>({&argument})));
  if (results.size() != 1) return absl::InternalError("an array came back as several");
  return std::move(results[0]);
}

// Whether two host arrays contain the same elements; unused bits of narrow elements may differ.
absl::StatusOr<bool> SameElements(const host::HostArray& a, const host::HostArray& b) {
  ASSIGN_OR_RETURN(Literal x, ToLiteral(a));
  ASSIGN_OR_RETURN(Literal y, ToLiteral(b));
  ExtendNarrow(x);
  ExtendNarrow(y);
  return x.shape() == y.shape() && std::memcmp(x.bytes(), y.bytes(), static_cast<size_t>(x.byte_size())) == 0;
}

absl::StatusOr<host::Buffer> TransferToDevice(const Session& session, const host::HostArray& array,
                                              const Handling& handling, const host::Device& device,
                                              const std::string& format) {
  int64_t elements = 1;
  for (const int64_t d : array.dims) elements *= d;
  const int64_t size = static_cast<int64_t>(array.data.size());
  StridedMemory memory;
  host::HostView view{array.data.data(), array.type, array.dims, {}};
  if (!handling.host.tile.empty()) {
    // A plugin may not support these tiles; if it does, the data must be unchanged.
    const absl::StatusOr<host::Buffer> tiled =
        InLayout(session, view, device, RowMajorOrder(array.dims.size()), handling.host.tile);
    if (tiled.ok()) {
      ASSIGN_OR_RETURN(const host::HostArray back, tiled->ToHost());
      ASSIGN_OR_RETURN(const bool same, SameElements(array, back));
      if (!same) return absl::InternalError("an array came back changed from tiles");
    } else if (!absl::IsUnimplemented(tiled.status()) && !absl::IsInvalidArgument(tiled.status())) {
      return tiled.status();
    }
  }
  // Elements narrower than a byte have no byte strides.
  if (handling.host.minor_to_major.size() == array.dims.size() && elements != 0 && size % elements == 0) {
    memory = WriteInOrder(array.data, array.dims, size / elements, handling.host);
    view.data = memory.bytes.data();
    view.byte_strides = memory.byte_strides;
  }
  if (handling.device_order.empty()) return session.client.ToDevice(view, device);
  // A plugin with tiled arrays chooses tiles and a default order for each shape. So a program's argument with the
  // requested order comes from another program's result with that order.
  BP_ASSIGN_OR_RETURN(host::Buffer plain, session.client.ToDevice(view, device));
  const absl::StatusOr<host::BufferLayout> layout = plain.Layout();
  if (layout.ok() && layout->type == PJRT_Buffer_MemoryLayout_Type_Tiled) {
    if (layout->minor_to_major == handling.device_order) return plain;
    if (!layout->tiles.empty()) return ReturnedInOrder(session, array, device, handling.device_order, format);
  }
  absl::StatusOr<host::Buffer> buffer = InLayout(session, view, device, handling.device_order, {});
  if (!absl::IsUnimplemented(buffer.status())) return buffer;
  return ReturnedInOrder(session, array, device, handling.device_order, format);
}

// Checks the agreements between program and host that no value shows.
absl::Status CheckAgreements(const std::vector<std::vector<host::HostArray>>& inputs,
                             const std::vector<Handling>& handling,
                             const std::vector<std::vector<host::Buffer>>& arguments,
                             const std::vector<std::vector<host::Buffer>>& results,
                             const std::vector<std::vector<int64_t>>& result_orders) {
  for (size_t row = 0; row < arguments.size(); ++row) {
    for (size_t k = 0; k < arguments[row].size(); ++k) {
      if (handling[k].donated && !handling[k].host.kept) continue;
      const absl::StatusOr<host::HostArray> now = arguments[row][k].ToHost();
      if (!now.ok()) {
        return absl::InternalError(absl::StrCat(
            "argument ", k, " is gone though it was not given away: ", absl::string_view(now.status().message())));
      }
      ASSIGN_OR_RETURN(const bool same, SameElements(inputs[row][k], *now));
      if (!same) return absl::InternalError(absl::StrCat("argument ", k, " has changed though it was not given away"));
    }
    for (size_t k = 0; k < results[row].size() && k < result_orders.size(); ++k) {
      if (result_orders[k].empty()) continue;
      ASSIGN_OR_RETURN(const host::BufferLayout layout, results[row][k].Layout());
      if (layout.minor_to_major == result_orders[k]) continue;
      return absl::InternalError(absl::StrCat("result ", k, " lies in the order {",
                                              absl::StrJoin(layout.minor_to_major, ","), "}, {",
                                              absl::StrJoin(result_orders[k], ","), "} was asked for"));
    }
  }
  return absl::OkStatus();
}

HostStep ReadStep(Reader& from) {
  HostStep step;
  step.kind = static_cast<HostStep::Kind>(from.Number());
  step.program = from.Number();
  step.buffers = from.Numbers();
  return step;
}

// Runs the schedule and waits for nothing before the last step: results are copied while the rest continues.
absl::StatusOr<std::vector<Literal>> ServeSchedule(const Session& session, const host::Program& program,
                                                   const std::vector<std::string>& helpers,
                                                   const std::vector<HostStep>& schedule,
                                                   const std::vector<host::HostArray>& inputs,
                                                   const std::vector<Handling>& handling) {
  std::vector<host::LoadedExecutable> executables;
  ASSIGN_OR_RETURN(host::LoadedExecutable main, CompileOn(session, program));
  executables.push_back(std::move(main));
  for (const std::string& helper : helpers) {
    ASSIGN_OR_RETURN(host::LoadedExecutable executable, CompileOn(session, {program.format, helper}));
    executables.push_back(std::move(executable));
  }
  ASSIGN_OR_RETURN(const std::vector<host::Device> places, executables[0].AddressableDevices());
  if (places.size() != 1) return absl::InternalError("a schedule is of one device");
  host::ExecuteOptions keep;
  for (size_t i = 0; i < handling.size(); ++i) {
    if (handling[i].donated && handling[i].host.kept) keep.non_donatable.push_back(static_cast<int64_t>(i));
  }
  std::vector<host::Buffer> buffers;
  for (int64_t copy = 0; copy < kArgumentCopies; ++copy) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      ASSIGN_OR_RETURN(host::Buffer buffer,
                       TransferToDevice(session, inputs[i], handling[i], places[0], program.format));
      buffers.push_back(std::move(buffer));
    }
  }
  std::vector<host::HostArray> read;
  read.reserve(schedule.size());
  std::vector<host::Event> copies;
  auto run_all = [&]() -> absl::Status {
    for (const HostStep& step : schedule) {
      for (const int64_t b : step.buffers) {
        if (b < 0 || b >= static_cast<int64_t>(buffers.size())) return absl::InternalError("a step has no such buffer");
      }
      switch (step.kind) {
        case HostStep::Kind::kRun: {
          std::vector<const host::Buffer*> arguments;
          for (const int64_t b : step.buffers) arguments.push_back(&buffers[static_cast<size_t>(b)]);
          absl::StatusOr<std::vector<host::Buffer>> results = executables[static_cast<size_t>(step.program)].Execute(
              absl::MakeConstSpan(arguments), step.program == 0 ? keep : host::ExecuteOptions());
          if (!results.ok()) {
            return FromPlugin(host::AddContext(results.status(), absl::StrCat(session.found.name, ": execute")));
          }
          for (host::Buffer& result : *results) buffers.push_back(std::move(result));
          break;
        }
        case HostStep::Kind::kDelete:
          BP_RETURN_IF_ERROR(buffers[static_cast<size_t>(step.buffers[0])].Delete());
          break;
        case HostStep::Kind::kRead: {
          const host::Buffer& buffer = buffers[static_cast<size_t>(step.buffers[0])];
          read.emplace_back();
          host::HostArray& array = read.back();
          BP_ASSIGN_OR_RETURN(array.type, buffer.ElementType());
          BP_ASSIGN_OR_RETURN(array.dims, buffer.Dims());
          BP_ASSIGN_OR_RETURN(const size_t size, host::HostByteSize(array.type, array.dims));
          array.data.resize(size);
          BP_ASSIGN_OR_RETURN(host::Event copied, buffer.CopyToHost(absl::MakeSpan(array.data)));
          copies.push_back(std::move(copied));
          break;
        }
      }
    }
    return absl::OkStatus();
  };
  // Copies in progress write to `read`, so they are awaited after an error too.
  absl::Status done = run_all();
  for (const host::Event& copied : copies) done.Update(copied.Await());
  RETURN_IF_ERROR(done);
  std::vector<Literal> results;
  for (const host::HostArray& array : read) {
    ASSIGN_OR_RETURN(Literal l, ToLiteral(array));
    results.push_back(std::move(l));
  }
  return results;
}

absl::StatusOr<std::vector<Literal>> Serve(const Session& session, Reader& request) {
  host::Program program;
  program.format = request.Bytes();
  program.code = request.Bytes();
  host::CompileOptions options;
  options.num_replicas = static_cast<int>(request.Number());
  options.num_partitions = static_cast<int>(request.Number());
  const int64_t outputs = request.Number();
  std::vector<std::vector<int64_t>> result_orders;
  for (int64_t k = 0; k < outputs && request.ok(); ++k) result_orders.push_back(request.Numbers());
  std::vector<std::string> helpers;
  const int64_t helper_count = request.Number();
  for (int64_t k = 0; k < helper_count && request.ok(); ++k) helpers.push_back(request.Bytes());
  std::vector<HostStep> schedule;
  const int64_t steps = request.Number();
  for (int64_t k = 0; k < steps && request.ok(); ++k) schedule.push_back(ReadStep(request));
  const int64_t count = request.Number();
  std::vector<Handling> handling;
  for (int64_t i = 0; i < count && request.ok(); ++i) handling.push_back(ReadHandling(request));
  const size_t devices = static_cast<size_t>(options.num_replicas) * static_cast<size_t>(options.num_partitions);
  std::vector<std::vector<host::HostArray>> inputs;  // by device number
  for (size_t d = 0; d < devices && request.ok(); ++d) {
    inputs.emplace_back();
    for (int64_t i = 0; i < count && request.ok(); ++i) {
      ASSIGN_OR_RETURN(host::HostArray array, FromLiteral(request.Array()));
      inputs.back().push_back(std::move(array));
    }
  }
  if (!request.ok()) return absl::InternalError("the request is cut off");
  if (!schedule.empty()) return ServeSchedule(session, program, helpers, schedule, inputs[0], handling);
  ASSIGN_OR_RETURN(const host::LoadedExecutable executable, CompileOn(session, program, options, Layouts::kAll));
  ASSIGN_OR_RETURN(const std::vector<host::Device> places, executable.AddressableDevices());
  std::vector<size_t> number(devices, 0);  // the device of each list of the launch
  if (places.size() != devices) {
    return absl::InternalError(absl::StrCat("loaded on ", places.size(), " devices, expected ", devices));
  }
  if (devices > 1) {
    ASSIGN_OR_RETURN(const auto ids, executable.AddressableDeviceLogicalIds());
    for (size_t row = 0; row < devices; ++row) {
      number[row] = static_cast<size_t>(ids[row].replica * options.num_partitions + ids[row].partition);
      if (number[row] >= devices) return absl::InternalError("a row of the launch has no device");
    }
  }
  std::vector<std::vector<host::HostArray>> rows;
  std::vector<std::vector<host::Buffer>> buffers;
  std::vector<std::vector<const host::Buffer*>> arguments;
  for (size_t row = 0; row < devices; ++row) {
    rows.push_back(inputs[number[row]]);
    buffers.emplace_back();
    for (size_t i = 0; i < rows[row].size(); ++i) {
      ASSIGN_OR_RETURN(host::Buffer buffer,
                       TransferToDevice(session, rows[row][i], handling[i], places[row], program.format));
      buffers[row].push_back(std::move(buffer));
    }
    arguments.emplace_back();
    for (const host::Buffer& buffer : buffers[row]) arguments[row].push_back(&buffer);
  }
  host::ExecuteOptions run;
  for (size_t i = 0; i < handling.size(); ++i) {
    if (handling[i].donated && handling[i].host.kept) run.non_donatable.push_back(static_cast<int64_t>(i));
  }
  absl::StatusOr<host::ExecuteResult> launched = executable.Execute(arguments, run);
  if (!launched.ok()) {
    return FromPlugin(host::AddContext(launched.status(), absl::StrCat(session.found.name, ": execute")));
  }
  std::vector<std::vector<Literal>> results(devices);
  for (size_t row = 0; row < devices; ++row) {
    for (const host::Buffer& result : launched->outputs[row]) {
      const absl::StatusOr<host::HostArray> array = result.ToHost();
      if (!array.ok()) {
        return FromPlugin(host::AddContext(array.status(),
                                           absl::StrCat(session.found.name, ": result ", results[number[row]].size())));
      }
      ASSIGN_OR_RETURN(Literal l, ToLiteral(*array));
      results[number[row]].push_back(std::move(l));
    }
  }
  BP_RETURN_IF_ERROR(CheckAgreements(rows, handling, buffers, launched->outputs, result_orders));
  std::vector<Literal> all;
  for (std::vector<Literal>& device : results) {
    for (Literal& l : device) all.push_back(std::move(l));
  }
  return all;
}

}  // namespace

void ServePlugin(int fd, const std::string& plugin, const PluginOptions& options) {
  const absl::StatusOr<Session> session = OpenSession(plugin, options);
  std::string message;
  while (ReadMessage(fd, &message) == Read::kDone) {
    Reader request(message);
    absl::StatusOr<std::vector<Literal>> results =
        session.ok() ? Serve(*session, request) : absl::StatusOr<std::vector<Literal>>(session.status());
    Writer answer;
    answer.Number(results.ok() ? 1 : 0);
    if (results.ok()) {
      answer.Number(static_cast<int64_t>(results->size()));
      for (const Literal& l : *results) answer.Array(l);
    } else {
      answer.Bytes(absl::StrCat(absl::StatusCodeToString(results.status().code()), ": ",
                                absl::string_view(results.status().message())));
    }
    if (!WriteMessage(fd, answer.bytes())) break;
  }
  _exit(0);  // skips the destructors of a plugin in an unknown state
}

}  // namespace backplane::cli::fuzz
