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

// As short as it reads back.
std::string Shortest(double value) {
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
  void Whole(const char* name, int64_t value, int64_t unless = 0) {
    if (value != unless) out_.attribute(name, value);
  }
  void Real(const char* name, double value) {
    if (value == 0) return;
    out_.attributeBegin(name);
    out_.rawValue(Shortest(value));
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
      Real("fixed", s.fixed), Real("mxu", s.mxu), Real("vpu", s.vpu), Real("hbm", s.hbm), Real("ici", s.ici);
    });
  }
  void Where(const Origin& origin) {
    Text("op_name", origin.op_name);
    Text("source_file", origin.source_file);
    Whole("source_line", origin.source_line);
  }

 private:
  OStream& out_;
};

void WriteMachineFigures(const Machine& m, OStream& out, Writer& w) {
  out.attributeObject("machine", [&] {
    w.Text("name", m.name);
    w.Real("cycles_per_second", m.CyclesPerSecond());
    w.Real("matrix_flops_per_second", m.PeakBf16Flops());
    // One operation a lane of every register that is issued.
    w.Real("vector_flops_per_second", m.vpu_issue * static_cast<double>(m.tile_rows * m.tile_lanes) *
                                          static_cast<double>(m.cores_per_device) * m.CyclesPerSecond());
    out.attributeObject("matrix_speed", [&] {
      for (const auto& [type, speed] : m.type_speed) w.Real(std::string(Name(type)).c_str(), speed);
    });
    w.Real("hbm_bytes_per_second", m.hbm_gb_per_s * 1e9);
    w.Real("hbm_efficiency", m.hbm_efficiency);
    w.Whole("hbm_bytes", m.hbm_bytes);
    w.Whole("vmem_bytes", m.vmem_bytes);
    w.Whole("scoped_vmem_bytes", m.scoped_vmem_bytes);
    w.Real("ici_bytes_per_second", static_cast<double>(m.ici_links) * m.ici_gb_per_s * 1e9);
    w.Whole("cores", m.cores_per_device);
    w.Real("dispatch_seconds", m.dispatch_microseconds * 1e-6);
  });
}

void WriteKernel(const ScheduledKernel& k, OStream& out, Writer& w) {
  out.object([&] {
    w.Text("name", k.name);
    w.Text("category", k.category);
    w.Text("contents", k.contents);
    w.Where(k.origin);
    w.Whole("executions", k.executions, 1);
    w.Whole("loop", k.loop, -1);
    w.Real("start_seconds", k.start_seconds);
    w.Real("seconds", k.time.seconds);
    w.Real("cycles", k.time.cycles);
    w.Real("mxu_cycles", k.time.mxu_cycles);
    w.Real("vpu_cycles", k.time.vpu_cycles);
    w.Real("hbm_cycles", k.time.hbm_cycles);
    w.Real("ici_cycles", k.time.ici_cycles);
    w.Text("bound", UnitName(k.time.bound));
    w.Real("utilisation", k.time.utilisation);
    w.Real("roofline_seconds", k.time.roofline_seconds);
    w.Real("matrix_flops", k.time.flops);
    w.Real("least_hbm_bytes", k.time.hbm_bytes);
    if (const std::optional<Windows>& windows = k.time.windows) {
      out.attributeObject("windows", [&] {
        w.Whole("rows", windows->rows), w.Whole("columns", windows->columns), w.Whole("inner", windows->inner);
        w.Whole("steps", windows->steps), w.Whole("vmem_bytes", windows->vmem_bytes);
      });
    }
    w.List("reads", k.reads);
    w.List("writes", k.writes);
    w.Whole("scoped_vmem_bytes", k.scoped_vmem_bytes);
    w.Real("flops", k.flops);
    w.Real("transcendentals", k.transcendentals);
    w.Real("hbm_bytes", k.hbm_bytes);
    w.Real("prefetch_cycles", k.prefetch_cycles);
  });
}

void WritePrefetch(const ScheduledPrefetch& p, OStream& out, Writer& w) {
  out.object([&] {
    w.Whole("buffer", p.buffer);
    w.Whole("kernel", p.kernel);
    w.Whole("first_kernel", p.first_kernel);
    w.Text("space", SpaceName(p.space));
    w.Whole("bytes", p.bytes);
    w.Real("seconds", p.seconds);
    w.Real("wait_seconds", p.wait_seconds);
  });
}

void WriteRefusal(const ScheduledRefusal& r, OStream& out, Writer& w) {
  out.attributeObject("refusal", [&] {
    w.Text("message", r.message);
    w.Text("space", SpaceName(r.space));
    w.Whole("kernel", r.kernel, -1);
    w.Whole("required_bytes", r.required_bytes);
    w.Whole("limit_bytes", r.limit_bytes);
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
    w.Whole("padded_bytes", b.padded_bytes);
    w.Whole("unpadded_bytes", b.unpadded_bytes);
    w.Whole("first_kernel", b.first_kernel);
    w.Whole("last_kernel", b.last_kernel);
    w.Text("remedy", b.remedy);
  });
}

void WriteLoop(const ScheduledLoop& l, OStream& out, Writer& w) {
  out.object([&] {
    w.Text("name", l.name);
    w.Whole("parent", l.parent, -1);
    w.Whole("trip_count", l.trip_count, 1);
    if (!l.known) out.attribute("known", false);
    w.Whole("first_kernel", l.first_kernel);
    w.Whole("end_kernel", l.end_kernel);
  });
}

double OfCycles(double cycles, const ScheduledKernel& k) {
  return k.time.cycles > 0 ? cycles / k.time.cycles * k.time.seconds * static_cast<double>(k.executions) : 0;
}

}  // namespace

double UnitSeconds::Of(Unit unit) const {
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

Unit UnitSeconds::Most() const {
  Unit most = Unit::kFixed;
  for (Unit unit : {Unit::kMxu, Unit::kVpu, Unit::kHbm, Unit::kIci}) {
    if (Of(unit) > Of(most)) most = unit;
  }
  return most;
}

UnitSeconds SecondsByBound(const Schedule& schedule) {
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

UnitSeconds BusySeconds(const Schedule& schedule) {
  UnitSeconds sum;
  for (const ScheduledKernel& k : schedule.kernels) {
    sum.mxu += OfCycles(k.time.mxu_cycles, k);
    sum.vpu += OfCycles(k.time.vpu_cycles, k);
    sum.hbm += OfCycles(k.time.hbm_cycles + k.prefetch_cycles, k);
    sum.ici += OfCycles(k.time.ici_cycles, k);
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
    w.Whole("version", kReportVersion);
    w.Text("module", schedule.module_name);
    w.Text("machine_name", schedule.machine_name);
    w.Text("topology", facts.topology);
    w.Whole("devices", facts.devices);
    WriteMachineFigures(machine, out, w);
    out.attributeObject("totals", [&] {
      w.Real("seconds", schedule.seconds);
      w.Real("cycles", schedule.cycles);
      w.Real("flops", schedule.flops);
      w.Real("transcendentals", schedule.transcendentals);
      w.Real("hbm_bytes", schedule.hbm_bytes);
      w.Seconds("seconds_by_bound", SecondsByBound(schedule));
      w.Seconds("busy_seconds", BusySeconds(schedule));
    });
    out.attributeObject("hbm", [&] {
      w.Whole("capacity", schedule.hbm_capacity);
      w.Whole("peak", schedule.hbm_peak);
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
    w.Text("summary", SummaryText(schedule, machine, facts));
  });
  return text;
}

}  // namespace backplane::tpu
