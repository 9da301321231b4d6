#include "plugins/tpu_emulator/report/report_json.h"

#include <charconv>
#include <cmath>
#include <utility>

#include "core/types/primitive_type.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"
#include "plugins/tpu_emulator/report/summary.h"

namespace backplane::tpu {
namespace {

using llvm::json::OStream;

llvm::StringRef Ref(absl::string_view text) { return llvm::StringRef(text.data(), text.size()); }

// Formats with the fewest digits that read back exactly.
std::string FormatShortest(double value) {
  if (!std::isfinite(value)) return "null";
  char digits[32];
  const std::to_chars_result end = std::to_chars(digits, digits + sizeof(digits), value);
  return std::string(digits, end.ptr);
}

class Writer {
 public:
  explicit Writer(OStream& out) : out_(out) {}
  void Text(const char* name, absl::string_view value) {
    if (!value.empty()) out_.attribute(name, llvm::json::fixUTF8(Ref(value)));
  }
  void Integer(const char* name, int64_t value, int64_t unless = 0) {
    if (value != unless) out_.attribute(name, value);
  }
  void Number(const char* name, double value) {
    if (value == 0) return;
    out_.attributeBegin(name);
    out_.rawValue(FormatShortest(value));
    out_.attributeEnd();
  }
  void List(const char* name, const std::vector<int64_t>& values) {
    if (values.empty()) return;
    out_.attributeArray(name, [&] {
      for (int64_t v : values) out_.value(v);
    });
  }
  void Texts(const char* name, const std::vector<std::string>& values) {
    out_.attributeArray(name, [&] {
      for (const std::string& v : values) out_.value(llvm::json::fixUTF8(v));
    });
  }
  void Seconds(const char* name, const UnitSeconds& s) {
    out_.attributeObject(name, [&] {
      Number("fixed", s.fixed), Number("mxu", s.mxu), Number("vpu", s.vpu), Number("hbm", s.hbm), Number("ici", s.ici);
    });
  }
  void Where(const Origin& origin) {
    Text("op_name", origin.op_name);
    Text("source_file", origin.source_file);
    Integer("source_line", origin.source_line);
  }

 private:
  OStream& out_;
};

void WriteMachineFigures(const Machine& m, OStream& out, Writer& w) {
  out.attributeObject("machine", [&] {
    w.Text("name", m.name);
    w.Number("cycles_per_second", m.CyclesPerSecond());
    w.Number("matrix_flops_per_second", m.PeakBf16Flops());
    // One operation per lane of every register that is issued.
    w.Number("vector_flops_per_second", m.vpu_issue * static_cast<double>(m.tile_rows * m.tile_lanes) *
                                            static_cast<double>(m.cores_per_device) * m.CyclesPerSecond());
    out.attributeObject("matrix_speed", [&] {
      for (const auto& [type, speed] : m.type_speed) w.Number(std::string(Name(type)).c_str(), speed);
    });
    w.Number("hbm_bytes_per_second", m.hbm_gb_per_s * 1e9);
    w.Number("hbm_efficiency", m.hbm_efficiency);
    w.Integer("hbm_bytes", m.hbm_bytes);
    w.Integer("vmem_bytes", m.vmem_bytes);
    w.Integer("scoped_vmem_bytes", m.scoped_vmem_bytes);
    w.Number("ici_bytes_per_second", static_cast<double>(m.ici_links) * m.ici_gb_per_s * 1e9);
    w.Integer("cores", m.cores_per_device);
    w.Number("dispatch_seconds", m.dispatch_microseconds * 1e-6);
  });
}

void WriteKernel(const ScheduledKernel& k, OStream& out, Writer& w) {
  out.object([&] {
    w.Text("name", k.name);
    w.Text("category", k.category);
    w.Text("contents", k.contents);
    w.Where(k.origin);
    w.Integer("executions", k.executions, 1);
    w.Integer("loop", k.loop, -1);
    w.Number("start_seconds", k.start_seconds);
    w.Number("seconds", k.time.seconds);
    w.Number("cycles", k.time.cycles);
    w.Number("mxu_cycles", k.time.mxu_cycles);
    w.Number("vpu_cycles", k.time.vpu_cycles);
    w.Number("hbm_cycles", k.time.hbm_cycles);
    w.Number("ici_cycles", k.time.ici_cycles);
    w.Text("bound", UnitName(k.time.bound));
    w.Number("utilisation", k.time.utilisation);
    w.Number("roofline_seconds", k.time.roofline_seconds);
    w.Number("matrix_flops", k.time.flops);
    w.Number("least_hbm_bytes", k.time.hbm_bytes);
    if (const std::optional<Windows>& windows = k.time.windows) {
      out.attributeObject("windows", [&] {
        w.Integer("rows", windows->rows), w.Integer("columns", windows->columns), w.Integer("inner", windows->inner);
        w.Integer("steps", windows->steps), w.Integer("vmem_bytes", windows->vmem_bytes);
      });
    }
    w.List("reads", k.reads);
    w.List("writes", k.writes);
    w.Integer("scoped_vmem_bytes", k.scoped_vmem_bytes);
    w.Number("flops", k.flops);
    w.Number("transcendentals", k.transcendentals);
    w.Number("hbm_bytes", k.hbm_bytes);
    w.Number("prefetch_cycles", k.prefetch_cycles);
  });
}

void WritePrefetch(const ScheduledPrefetch& p, OStream& out, Writer& w) {
  out.object([&] {
    w.Integer("buffer", p.buffer);
    w.Integer("kernel", p.kernel);
    w.Integer("first_kernel", p.first_kernel);
    w.Text("space", SpaceName(p.space));
    w.Integer("bytes", p.bytes);
    w.Number("seconds", p.seconds);
    w.Number("wait_seconds", p.wait_seconds);
  });
}

void WriteRefusal(const ScheduledRefusal& r, OStream& out, Writer& w) {
  out.attributeObject("refusal", [&] {
    w.Text("message", r.message);
    w.Text("space", SpaceName(r.space));
    w.Integer("kernel", r.kernel, -1);
    w.Integer("required_bytes", r.required_bytes);
    w.Integer("limit_bytes", r.limit_bytes);
    w.List("buffers", r.buffers);
    w.Texts("remedies", r.remedies);
  });
}

void WriteBuffer(const ScheduledBuffer& b, OStream& out, Writer& w) {
  out.object([&] {
    w.Text("name", b.name);
    w.Text("shape", b.shape);
    w.Text("kind", KindName(b.kind));
    w.Text("space", SpaceName(b.space));
    w.Where(b.origin);
    w.Integer("padded_bytes", b.padded_bytes);
    w.Integer("unpadded_bytes", b.unpadded_bytes);
    w.Integer("first_kernel", b.first_kernel);
    w.Integer("last_kernel", b.last_kernel);
    w.Text("remedy", b.remedy);
  });
}

void WriteLoop(const ScheduledLoop& l, OStream& out, Writer& w) {
  out.object([&] {
    w.Text("name", l.name);
    w.Integer("parent", l.parent, -1);
    w.Integer("trip_count", l.trip_count, 1);
    if (!l.known) out.attribute("known", false);
    w.Integer("first_kernel", l.first_kernel);
    w.Integer("end_kernel", l.end_kernel);
  });
}

double CyclesToSeconds(double cycles, const ScheduledKernel& k) {
  return k.time.cycles > 0 ? cycles / k.time.cycles * k.time.seconds * static_cast<double>(k.executions) : 0;
}

}  // namespace

double UnitSeconds::Get(Unit unit) const {
  switch (unit) {
    case Unit::kFixed:
      return fixed;
    case Unit::kMxu:
      return mxu;
    case Unit::kVpu:
      return vpu;
    case Unit::kHbm:
      return hbm;
    case Unit::kIci:
      return ici;
  }
  return 0;
}

Unit UnitSeconds::Largest() const {
  Unit most = Unit::kFixed;
  for (Unit unit : {Unit::kMxu, Unit::kVpu, Unit::kHbm, Unit::kIci}) {
    if (Get(unit) > Get(most)) most = unit;
  }
  return most;
}

UnitSeconds SumSecondsByBound(const Schedule& schedule) {
  UnitSeconds sum;
  for (const ScheduledKernel& k : schedule.kernels) {
    const double seconds = k.time.seconds * static_cast<double>(k.executions);
    switch (k.time.bound) {
      case Unit::kFixed:
        sum.fixed += seconds;
        break;
      case Unit::kMxu:
        sum.mxu += seconds;
        break;
      case Unit::kVpu:
        sum.vpu += seconds;
        break;
      case Unit::kHbm:
        sum.hbm += seconds;
        break;
      case Unit::kIci:
        sum.ici += seconds;
        break;
    }
  }
  return sum;
}

UnitSeconds ComputeBusySeconds(const Schedule& schedule) {
  UnitSeconds sum;
  for (const ScheduledKernel& k : schedule.kernels) {
    sum.mxu += CyclesToSeconds(k.time.mxu_cycles, k);
    sum.vpu += CyclesToSeconds(k.time.vpu_cycles, k);
    sum.hbm += CyclesToSeconds(k.time.hbm_cycles + k.prefetch_cycles, k);
    sum.ici += CyclesToSeconds(k.time.ici_cycles, k);
  }
  return sum;
}

absl::string_view KindName(ScheduledBuffer::Kind kind) {
  switch (kind) {
    case ScheduledBuffer::Kind::kArgument:
      return "argument";
    case ScheduledBuffer::Kind::kResult:
      return "result";
    case ScheduledBuffer::Kind::kTemporary:
      return "temporary";
    case ScheduledBuffer::Kind::kConstant:
      return "constant";
  }
  return "";
}

absl::string_view SpaceName(Space space) {
  switch (space) {
    case Space::kHbm:
      return "hbm";
    case Space::kVmem:
      return "vmem";
    case Space::kCmem:
      return "cmem";
  }
  return "";
}

std::string WriteReportJson(const Schedule& schedule, const Machine& machine, const ReportFacts& facts) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  OStream out(stream);
  Writer w(out);
  out.object([&] {
    w.Text("format", kReportFormat);
    w.Integer("version", kReportVersion);
    w.Text("module", schedule.module_name);
    w.Text("machine_name", schedule.machine_name);
    w.Text("topology", facts.topology);
    w.Integer("devices", facts.devices);
    WriteMachineFigures(machine, out, w);
    out.attributeObject("totals", [&] {
      w.Number("seconds", schedule.seconds);
      w.Number("cycles", schedule.cycles);
      w.Number("flops", schedule.flops);
      w.Number("transcendentals", schedule.transcendentals);
      w.Number("hbm_bytes", schedule.hbm_bytes);
      w.Seconds("seconds_by_bound", SumSecondsByBound(schedule));
      w.Seconds("busy_seconds", ComputeBusySeconds(schedule));
    });
    out.attributeObject("hbm", [&] {
      w.Integer("capacity", schedule.hbm_capacity);
      w.Integer("peak", schedule.hbm_peak);
      w.List("in_use", schedule.hbm_in_use);
    });
    out.attributeArray("kernels", [&] {
      for (const ScheduledKernel& k : schedule.kernels) WriteKernel(k, out, w);
    });
    out.attributeArray("buffers", [&] {
      for (const ScheduledBuffer& b : schedule.buffers) WriteBuffer(b, out, w);
    });
    out.attributeArray("loops", [&] {
      for (const ScheduledLoop& l : schedule.loops) WriteLoop(l, out, w);
    });
    out.attributeArray("prefetches", [&] {
      for (const ScheduledPrefetch& p : schedule.prefetches) WritePrefetch(p, out, w);
    });
    if (schedule.refusal) WriteRefusal(*schedule.refusal, out, w);
    w.Texts("notes", schedule.notes);
    w.Text("summary", FormatSummary(schedule, machine, facts));
  });
  return text;
}

}  // namespace backplane::tpu
