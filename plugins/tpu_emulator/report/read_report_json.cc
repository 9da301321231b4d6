// Reads the documents of report_json.h. Every member is checked.
#include <array>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/types/status_macros.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"
#include "plugins/tpu_emulator/report/report_json.h"

namespace backplane::tpu {
namespace {

using llvm::json::Object;
using llvm::json::Value;

// One object of the document. After the first error all reads are skipped, and `status` holds that error.
class Reader {
 public:
  Reader(const Object& object, std::string path, absl::Status& status)
      : object_(object), path_(std::move(path)), status_(status) {}

  void Text(const char* name, std::string& out) {
    const Value* value = Find(name);
    if (value == nullptr) return;
    if (const std::optional<llvm::StringRef> text = value->getAsString()) {
      out = text->str();
    } else {
      Refuse(name, "must be a string");
    }
  }
  void Integer(const char* name, int64_t& out) {
    const Value* value = Find(name);
    if (value == nullptr) return;
    if (const std::optional<int64_t> integer = value->getAsInteger()) {
      out = *integer;
    } else {
      Refuse(name, "must be a whole number");
    }
  }
  void Number(const char* name, double& out) {
    const Value* value = Find(name);
    if (value == nullptr) return;
    if (const std::optional<double> number = value->getAsNumber()) {
      out = *number;
    } else if (!value->getAsNull()) {
      Refuse(name, "must be a number");
    }
  }
  void Bool(const char* name, bool& out) {
    const Value* value = Find(name);
    if (value == nullptr) return;
    if (const std::optional<bool> boolean = value->getAsBoolean()) {
      out = *boolean;
    } else {
      Refuse(name, "must be true or false");
    }
  }
  // An integer of at least `least` and below `end`.
  void Index(const char* name, int64_t& out, int64_t least, int64_t end) {
    Integer(name, out);
    if (Find(name) != nullptr && (out < least || out >= end)) Refuse(name, absl::StrCat("index out of range: ", out));
  }
  void Integers(const char* name, std::vector<int64_t>& out, int64_t least, int64_t end) {
    ForEach(name, [&](const Value& value, const std::string& path) {
      const std::optional<int64_t> integer = value.getAsInteger();
      if (!integer || *integer < least || *integer >= end) {
        RefuseAt(path, integer ? absl::StrCat("index out of range: ", *integer) : "must be a whole number");
        return;
      }
      out.push_back(*integer);
    });
  }
  void Texts(const char* name, std::vector<std::string>& out) {
    ForEach(name, [&](const Value& value, const std::string& path) {
      const std::optional<llvm::StringRef> text = value.getAsString();
      if (!text) return RefuseAt(path, "must be a string");
      out.push_back(text->str());
    });
  }
  // One of the names that `name_of` gives to the values 0 to `last`.
  template <typename E, typename GetName>
  void Choice(const char* name, E& out, E last, GetName name_of) {
    std::string text;
    Text(name, text);
    if (Find(name) == nullptr) return;
    for (int i = 0; i <= static_cast<int>(last); ++i) {
      if (text == name_of(static_cast<E>(i))) {
        out = static_cast<E>(i);
        return;
      }
    }
    Refuse(name, absl::StrCat("unknown: '", text, "'"));
  }
  template <typename F>
  void Inner(const char* name, F read) {
    const Value* value = Find(name);
    if (value == nullptr) return;
    if (const Object* inner = value->getAsObject()) {
      read(Reader(*inner, Path(name), status_));
    } else {
      Refuse(name, "must be an object");
    }
  }
  template <typename F>
  void Objects(const char* name, F read) {
    ForEach(name, [&](const Value& value, const std::string& path) {
      const Object* object = value.getAsObject();
      if (object == nullptr) return RefuseAt(path, "must be an object");
      read(Reader(*object, path, status_));
    });
  }
  int64_t Count(const char* name) const {
    const llvm::json::Array* array = object_.getArray(name);
    return array == nullptr ? 0 : static_cast<int64_t>(array->size());
  }
  void Refuse(const char* name, absl::string_view why) { RefuseAt(Path(name), why); }

 private:
  const Value* Find(const char* name) const { return status_.ok() ? object_.get(name) : nullptr; }
  std::string Path(const char* name) const { return path_.empty() ? name : absl::StrCat(path_, ".", name); }
  void RefuseAt(absl::string_view path, absl::string_view why) {
    if (status_.ok()) status_ = absl::InvalidArgumentError(absl::StrCat("report: ", path, ": ", why));
  }
  template <typename F>
  void ForEach(const char* name, F read) {
    const Value* value = Find(name);
    if (value == nullptr) return;
    const llvm::json::Array* array = value->getAsArray();
    if (array == nullptr) return Refuse(name, "must be an array");
    for (size_t i = 0; i < array->size() && status_.ok(); ++i) {
      read((*array)[i], absl::StrCat(Path(name), "[", i, "]"));
    }
  }

  const Object& object_;
  const std::string path_;
  absl::Status& status_;
};

void ReadOrigin(Reader& r, Origin& origin) {
  r.Text("op_name", origin.op_name);
  r.Text("source_file", origin.source_file);
  r.Integer("source_line", origin.source_line);
}

ScheduledKernel ReadKernel(Reader r, int64_t loops, int64_t buffers) {
  ScheduledKernel k;
  r.Text("name", k.name);
  r.Text("category", k.category);
  r.Text("contents", k.contents);
  ReadOrigin(r, k.origin);
  r.Integer("executions", k.executions);
  r.Index("loop", k.loop, -1, loops);
  r.Number("start_seconds", k.start_seconds);
  KernelTime& t = k.time;
  r.Number("seconds", t.seconds);
  r.Number("cycles", t.cycles);
  r.Number("mxu_cycles", t.mxu_cycles);
  r.Number("vpu_cycles", t.vpu_cycles);
  r.Number("hbm_cycles", t.hbm_cycles);
  r.Number("ici_cycles", t.ici_cycles);
  r.Choice("bound", t.bound, Unit::kIci, UnitName);
  r.Number("utilisation", t.utilisation);
  r.Number("roofline_seconds", t.roofline_seconds);
  r.Number("matrix_flops", t.flops);
  r.Number("least_hbm_bytes", t.hbm_bytes);
  r.Inner("windows", [&](Reader w) {
    t.windows.emplace();
    w.Integer("rows", t.windows->rows);
    w.Integer("columns", t.windows->columns);
    w.Integer("inner", t.windows->inner);
    w.Integer("steps", t.windows->steps);
    w.Integer("vmem_bytes", t.windows->vmem_bytes);
  });
  r.Integers("reads", k.reads, 0, buffers);
  r.Integers("writes", k.writes, 0, buffers);
  r.Integer("scoped_vmem_bytes", k.scoped_vmem_bytes);
  r.Number("flops", k.flops);
  r.Number("transcendentals", k.transcendentals);
  r.Number("hbm_bytes", k.hbm_bytes);
  r.Number("prefetch_cycles", k.prefetch_cycles);
  return k;
}

ScheduledPrefetch ReadPrefetch(Reader r, int64_t kernels, int64_t buffers) {
  ScheduledPrefetch p;
  r.Index("buffer", p.buffer, 0, buffers);
  r.Index("kernel", p.kernel, 0, kernels);
  r.Index("first_kernel", p.first_kernel, 0, kernels);
  r.Choice("space", p.space, Space::kCmem, SpaceName);
  r.Integer("bytes", p.bytes);
  r.Number("seconds", p.seconds);
  r.Number("wait_seconds", p.wait_seconds);
  return p;
}

ScheduledRefusal ReadRefusal(Reader r, int64_t kernels, int64_t buffers) {
  ScheduledRefusal f;
  r.Text("message", f.message);
  r.Choice("space", f.space, Space::kCmem, SpaceName);
  r.Index("kernel", f.kernel, -1, kernels);
  r.Integer("required_bytes", f.required_bytes);
  r.Integer("limit_bytes", f.limit_bytes);
  r.Integers("buffers", f.buffers, 0, buffers);
  r.Texts("remedies", f.remedies);
  return f;
}

ScheduledBuffer ReadBuffer(Reader r) {
  ScheduledBuffer b;
  r.Text("name", b.name);
  r.Text("shape", b.shape);
  r.Choice("kind", b.kind, ScheduledBuffer::Kind::kConstant, KindName);
  r.Choice("space", b.space, Space::kCmem, SpaceName);
  ReadOrigin(r, b.origin);
  r.Integer("padded_bytes", b.padded_bytes);
  r.Integer("unpadded_bytes", b.unpadded_bytes);
  r.Integer("first_kernel", b.first_kernel);
  r.Integer("last_kernel", b.last_kernel);
  r.Text("remedy", b.remedy);
  return b;
}

ScheduledLoop ReadLoop(Reader r, int64_t number, int64_t kernels) {
  ScheduledLoop l;
  r.Text("name", l.name);
  r.Index("parent", l.parent, -1, number);  // outer loops come first, so loops cannot form a cycle
  r.Integer("trip_count", l.trip_count);
  r.Bool("known", l.known);
  r.Index("first_kernel", l.first_kernel, 0, kernels + 1);
  r.Index("end_kernel", l.end_kernel, l.first_kernel, kernels + 1);
  return l;
}

}  // namespace

absl::StatusOr<Schedule> ReadReportJson(absl::string_view text) {
  llvm::Expected<Value> parsed = llvm::json::parse(llvm::StringRef(text.data(), text.size()));
  if (!parsed) {
    return absl::InvalidArgumentError(absl::StrCat("report: not JSON: ", llvm::toString(parsed.takeError())));
  }
  const Object* object = parsed->getAsObject();
  const std::optional<llvm::StringRef> format =
      object == nullptr ? std::optional<llvm::StringRef>() : object->getString("format");
  if (!format || *format != kReportFormat) {
    return absl::InvalidArgumentError(absl::StrCat("report: its \"format\" is not \"", kReportFormat, "\""));
  }
  if (object->getInteger("version") != kReportVersion) {
    return absl::InvalidArgumentError(absl::StrCat("report: its \"version\" is not ", kReportVersion));
  }
  absl::Status status;
  Reader r(*object, "", status);
  Schedule s;
  r.Text("module", s.module_name);
  r.Text("machine_name", s.machine_name);
  r.Inner("totals", [&](Reader t) {
    t.Number("seconds", s.seconds);
    t.Number("cycles", s.cycles);
    t.Number("flops", s.flops);
    t.Number("transcendentals", s.transcendentals);
    t.Number("hbm_bytes", s.hbm_bytes);
  });
  r.Inner("hbm", [&](Reader h) {
    h.Integer("capacity", s.hbm_capacity);
    h.Integer("peak", s.hbm_peak);
    h.Integers("in_use", s.hbm_in_use, 0, INT64_MAX);
  });
  const int64_t kernels = r.Count("kernels"), buffers = r.Count("buffers"), loops = r.Count("loops");
  r.Objects("kernels", [&](Reader k) { s.kernels.push_back(ReadKernel(k, loops, buffers)); });
  r.Objects("buffers", [&](Reader b) { s.buffers.push_back(ReadBuffer(b)); });
  r.Objects("loops", [&](Reader l) { s.loops.push_back(ReadLoop(l, static_cast<int64_t>(s.loops.size()), kernels)); });
  r.Objects("prefetches", [&](Reader p) { s.prefetches.push_back(ReadPrefetch(p, kernels, buffers)); });
  r.Inner("refusal", [&](Reader f) { s.refusal = ReadRefusal(f, kernels, buffers); });
  r.Texts("notes", s.notes);
  RETURN_IF_ERROR(status);
  return s;
}

}  // namespace backplane::tpu
