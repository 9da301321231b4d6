#include "plugins/hip/report/report_json.h"

#include <algorithm>

#include "core/types/primitive_type.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"
#include "plugins/hip/lowering/amd_machine.h"
#include "plugins/hip/report/gpu_peaks.h"

namespace backplane::hip {
namespace {

using llvm::json::OStream;

// Returns the least time that one execution takes on a GPU with these peaks.
struct Estimate {
  bool matrix = false;  // the arithmetic is that of matrix instructions
  double memory_seconds = 0, compute_seconds = 0;
  double seconds() const { return std::max(memory_seconds, compute_seconds); }
  const char* bound() const { return compute_seconds > memory_seconds ? "compute" : "memory"; }
};

// Whether one device does the launch alone, so that its own peaks bound it.
bool IsOfTheDevice(const ProgramLaunch& launch) {
  return launch.kind == ProgramLaunch::Kind::kKernel || launch.kind == ProgramLaunch::Kind::kCopy;
}

Estimate EstimateTime(const ProgramLaunch& launch, const KernelPlan* plan, const GpuPeaks& peaks) {
  Estimate e;
  e.memory_seconds = static_cast<double>(launch.read_bytes + launch.written_bytes) / peaks.memory_bytes;
  e.matrix = plan != nullptr && plan->matrix() != nullptr && peaks.MatrixPeak(launch.type) > 0;
  e.compute_seconds = launch.flops / (e.matrix ? peaks.MatrixPeak(launch.type) : peaks.VectorPeak(launch.type));
  return e;
}

class Writer {
 public:
  explicit Writer(OStream& out) : out_(out) {}

  void Text(const char* name, absl::string_view value) {
    if (!value.empty()) out_.attribute(name, llvm::json::fixUTF8(llvm::StringRef(value.data(), value.size())));
  }
  // Numbers that are not known are absent.
  void Known(const char* name, int value) {
    if (value >= 0) out_.attribute(name, value);
  }

  void Machine(const GpuTarget& target, const GpuPeaks* peaks) {
    out_.attributeObject("machine", [&] {
      out_.attribute("wave_size", target.wave_size);
      out_.attribute("block_shared_bytes", target.shared_bytes);
      if (const AmdMachine* amd = FindAmdMachine(target.name)) out_.attribute("max_waves", amd->max_waves);
      if (peaks == nullptr) return;
      Text("gpu", peaks->gpu);
      Text("source", peaks->source);
      out_.attribute("memory_bytes_per_second", peaks->memory_bytes);
      out_.attribute("vector_f32", peaks->vector_f32);
      out_.attribute("vector_f64", peaks->vector_f64);
      const std::pair<const char*, double> matrix[] = {{"matrix_f32", peaks->matrix_f32},
                                                       {"matrix_f16", peaks->matrix_f16},
                                                       {"matrix_bf16", peaks->matrix_bf16},
                                                       {"matrix_s8", peaks->matrix_s8},
                                                       {"matrix_f64", peaks->matrix_f64}};
      for (const auto& [name, rate] : matrix) {
        if (rate > 0) out_.attribute(name, rate);
      }
    });
  }

  void Kernel(const ProgramKernels::Kernel& kernel, const KernelResources& r) {
    out_.object([&] {
      Text("name", kernel.name);
      Text("plan", kernel.plan.note);
      out_.attribute("threads", static_cast<int64_t>(kernel.plan.threads));
      out_.attribute("blocks", static_cast<int64_t>(kernel.plan.blocks));
      if (const MatrixStep* matrix = kernel.plan.matrix()) Text("matrix_instruction", matrix->instruction);
      Known("vgprs", r.vgprs);
      Known("agprs", r.agprs);
      Known("sgprs", r.sgprs);
      if (r.vgprs >= 0) out_.attribute("shared_bytes", r.shared_bytes);
      Known("scratch_bytes", r.scratch_bytes);
      Known("spilled_registers", r.spilled_registers);
      Known("occupancy", r.occupancy);
      Known("code_bytes", r.code_bytes);
    });
  }

  void WriteLaunch(const ProgramLaunch& launch, const KernelPlan* plan, const GpuPeaks* peaks) {
    static constexpr const char* kKinds[] = {"kernel", "copy", "host", "collective"};
    out_.object([&] {
      out_.attribute("kind", kKinds[static_cast<size_t>(launch.kind)]);
      if (launch.instruction != nullptr) Text("name", launch.instruction->name());
      if (launch.kernel >= 0) out_.attribute("kernel", launch.kernel);
      Text("note", launch.note);
      out_.attribute("executions", launch.executions);
      if (!launch.executions_known) out_.attribute("executions_known", false);
      out_.attribute("read_bytes", launch.read_bytes);
      out_.attribute("written_bytes", launch.written_bytes);
      out_.attribute("flops", launch.flops);
      out_.attribute("transcendentals", launch.transcendentals);
      Text("type", Name(launch.type));
      if (peaks != nullptr && IsOfTheDevice(launch)) {
        const Estimate e = EstimateTime(launch, plan, *peaks);
        out_.attribute("unit", e.matrix ? "matrix" : "vector");
        out_.attribute("memory_seconds", e.memory_seconds);
        out_.attribute("compute_seconds", e.compute_seconds);
        out_.attribute("bound", e.bound());
      }
      out_.attributeArray("instructions", [&] {
        if (launch.instruction != nullptr && launch.kind != ProgramLaunch::Kind::kCopy)
          Instructions(*launch.instruction);
      });
    });
  }

 private:
  // Lists the instructions as the host's program has them: for a fusion those of its body.
  void Instructions(const Instruction& i) {
    if (i.Is(Opcode::kFusion)) {
      for (const auto& inner : i.called(0)->instructions()) {
        if (!inner->info().Has(OpTrait::kNoOp)) Instructions(*inner);
      }
      return;
    }
    out_.object([&] {
      Text("name", i.name());
      Text("opcode", OpName(i.opcode()));
      Text("shape", i.shape().ToString());
      Text("op_name", i.metadata().op_name);
      Text("source_file", i.metadata().source_file);
      if (i.metadata().source_line > 0) out_.attribute("source_line", i.metadata().source_line);
    });
  }

  OStream& out_;
};

struct Totals {
  double read_bytes = 0, written_bytes = 0, flops = 0, transcendentals = 0;
  double seconds = 0, memory_bound_seconds = 0, compute_bound_seconds = 0;
  double launches = 0, host_steps = 0, collectives = 0;
  bool known = true;
};

}  // namespace

std::string WriteReportJson(const Module& module, const GpuTarget& target,
                            absl::Span<const ProgramKernels::Kernel> kernels,
                            absl::Span<const KernelResources> resources, absl::Span<const ProgramLaunch> launches) {
  const GpuPeaks* peaks = FindGpuPeaks(target.name);
  auto plan_of = [&](const ProgramLaunch& launch) {
    return launch.kernel < 0 ? nullptr : &kernels[static_cast<size_t>(launch.kernel)].plan;
  };
  Totals totals;
  for (const ProgramLaunch& launch : launches) {
    totals.known = totals.known && launch.executions_known;
    if (launch.kind == ProgramLaunch::Kind::kHost) totals.host_steps += launch.executions;
    if (launch.kind == ProgramLaunch::Kind::kCollective) totals.collectives += launch.executions;
    if (!IsOfTheDevice(launch)) continue;
    const double n = launch.executions;
    totals.launches += launch.executions;
    totals.read_bytes += n * static_cast<double>(launch.read_bytes);
    totals.written_bytes += n * static_cast<double>(launch.written_bytes);
    totals.flops += n * launch.flops;
    totals.transcendentals += n * launch.transcendentals;
    if (peaks == nullptr) continue;
    const Estimate e = EstimateTime(launch, plan_of(launch), *peaks);
    totals.seconds += n * e.seconds();
    (e.compute_seconds > e.memory_seconds ? totals.compute_bound_seconds : totals.memory_bound_seconds) +=
        n * e.seconds();
  }

  std::string text;
  llvm::raw_string_ostream stream(text);
  OStream out(stream);
  Writer writer(out);
  out.object([&] {
    out.attribute("format", "backplane.gpu_report");
    out.attribute("version", 1);
    writer.Text("module", module.name());
    writer.Text("target", target.name);
    writer.Machine(target, peaks);
    out.attributeObject("totals", [&] {
      out.attribute("launches", totals.launches);
      out.attribute("host_steps", totals.host_steps);
      out.attribute("collectives", totals.collectives);
      out.attribute("trip_counts_known", totals.known);
      out.attribute("read_bytes", totals.read_bytes);
      out.attribute("written_bytes", totals.written_bytes);
      out.attribute("flops", totals.flops);
      out.attribute("transcendentals", totals.transcendentals);
      if (peaks == nullptr) return;
      out.attribute("seconds", totals.seconds);
      out.attribute("memory_bound_seconds", totals.memory_bound_seconds);
      out.attribute("compute_bound_seconds", totals.compute_bound_seconds);
    });
    out.attributeArray("kernels", [&] {
      for (size_t k = 0; k < kernels.size(); ++k) writer.Kernel(kernels[k], resources[k]);
    });
    out.attributeArray("launches", [&] {
      for (const ProgramLaunch& launch : launches) writer.WriteLaunch(launch, plan_of(launch), peaks);
    });
  });
  return text;
}

}  // namespace backplane::hip
