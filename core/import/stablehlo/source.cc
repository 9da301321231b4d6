#include "core/import/stablehlo/source.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/fnv.h"

namespace backplane::stablehlo {
namespace {

struct ElementRow {
  ElementKind kind;
  const char* name;
  int bits;
  bool is_float;
  bool is_unsigned;
};

constexpr ElementRow kElements[] = {
    {ElementKind::kBool, "i1", 1, false, true},
    {ElementKind::kI2, "i2", 2, false, false},
    {ElementKind::kI4, "i4", 4, false, false},
    {ElementKind::kI8, "i8", 8, false, false},
    {ElementKind::kI16, "i16", 16, false, false},
    {ElementKind::kI32, "i32", 32, false, false},
    {ElementKind::kI64, "i64", 64, false, false},
    {ElementKind::kU2, "ui2", 2, false, true},
    {ElementKind::kU4, "ui4", 4, false, true},
    {ElementKind::kU8, "ui8", 8, false, true},
    {ElementKind::kU16, "ui16", 16, false, true},
    {ElementKind::kU32, "ui32", 32, false, true},
    {ElementKind::kU64, "ui64", 64, false, true},
    {ElementKind::kIndex, "index", 64, false, true},
    {ElementKind::kBF16, "bf16", 16, true, false},
    {ElementKind::kF16, "f16", 16, true, false},
    {ElementKind::kF32, "f32", 32, true, false},
    {ElementKind::kF64, "f64", 64, true, false},
    {ElementKind::kTF32, "tf32", 19, true, false},
    {ElementKind::kF8E4M3FN, "f8E4M3FN", 8, true, false},
    {ElementKind::kF8E5M2, "f8E5M2", 8, true, false},
    {ElementKind::kF8E4M3FNUZ, "f8E4M3FNUZ", 8, true, false},
    {ElementKind::kF8E5M2FNUZ, "f8E5M2FNUZ", 8, true, false},
    {ElementKind::kF8E4M3B11FNUZ, "f8E4M3B11FNUZ", 8, true, false},
    {ElementKind::kF8E4M3, "f8E4M3", 8, true, false},
    {ElementKind::kF8E3M4, "f8E3M4", 8, true, false},
    {ElementKind::kF4E2M1FN, "f4E2M1FN", 4, true, false},
    {ElementKind::kF6E2M3FN, "f6E2M3FN", 6, true, false},
    {ElementKind::kF6E3M2FN, "f6E3M2FN", 6, true, false},
    {ElementKind::kF8E8M0FNU, "f8E8M0FNU", 8, true, false},
};

const ElementRow& Row(ElementKind kind) { return kElements[static_cast<size_t>(kind)]; }

// Names are sorted in every attribute list, so lookups may bisect.
const SourceAttr* FindIn(absl::Span<const SourceNamedAttr> list, absl::string_view name) {
  auto it = std::lower_bound(list.begin(), list.end(), name,
                             [](const SourceNamedAttr& a, absl::string_view n) { return a.name < n; });
  return it != list.end() && it->name == name ? it->value : nullptr;
}

}  // namespace

absl::string_view SourceArena::CopyString(absl::string_view text) {
  if (text.empty()) return {};
  char* p = static_cast<char*>(Allocate(text.size(), 1));
  std::memcpy(p, text.data(), text.size());
  return absl::string_view(p, text.size());
}

void* SourceArena::Allocate(size_t size, size_t align) {
  size_t pad = (align - reinterpret_cast<uintptr_t>(next_) % align) % align;
  if (left_ < size + pad) {
    size_t chunk = std::max<size_t>(size + align, 64 << 10);
    chunks_.push_back(std::unique_ptr<char[]>(new char[chunk]));
    next_ = chunks_.back().get();
    left_ = chunk;
    pad = (align - reinterpret_cast<uintptr_t>(next_) % align) % align;
  }
  char* p = next_ + pad;
  next_ = p + size;
  left_ -= size + pad;
  return p;
}

absl::string_view ElementName(ElementKind kind) { return Row(kind).name; }

bool ElementFromName(absl::string_view text, ElementKind* kind) {
  if (text.size() > 2 && text[0] == 's' && text[1] == 'i') text.remove_prefix(1);
  for (const ElementRow& row : kElements) {
    if (text == row.name) {
      *kind = row.kind;
      return true;
    }
  }
  return false;
}

int ElementBits(ElementKind kind) { return Row(kind).bits; }
bool IsFloatElement(ElementKind kind) { return Row(kind).is_float; }
bool IsUnsignedElement(ElementKind kind) { return Row(kind).is_unsigned; }
int ElementStorageBytes(ElementKind kind) { return (Row(kind).bits + 7) / 8; }

bool SameType(const SourceType* a, const SourceType* b) {
  if (a == b) return true;
  if (a == nullptr || b == nullptr || a->kind != b->kind) return false;
  auto same_list = [](absl::Span<const SourceType* const> x, absl::Span<const SourceType* const> y) {
    return std::equal(x.begin(), x.end(), y.begin(), y.end(), SameType);
  };
  if (a->kind == TypeKind::kScalar) return a->element == b->element;
  if (a->kind == TypeKind::kOpaque) return a->text == b->text;
  if (a->dims != b->dims || a->bounds != b->bounds) return false;
  if ((a->inner != nullptr || b->inner != nullptr) && !SameType(a->inner, b->inner)) return false;
  if ((a->encoding == nullptr) != (b->encoding == nullptr)) return false;
  if (a->encoding && AttrToString(a->encoding) != AttrToString(b->encoding)) return false;
  if (!same_list(a->members, b->members) || !same_list(a->results, b->results)) return false;
  if (a->quantization || b->quantization) return TypeToString(a) == TypeToString(b);
  return true;
}

bool CountStaticElements(absl::Span<const int64_t> dims, int64_t* count) {
  int64_t n = 1;
  bool zero = false;
  for (int64_t d : dims) {
    if (d < 0) return false;
    zero |= d == 0;
    if (__builtin_mul_overflow(n, std::max<int64_t>(d, 1), &n)) return false;
  }
  *count = zero ? 0 : n;
  return true;
}

int ConstantElementBytes(const SourceType* element) {
  switch (element->kind) {
    case TypeKind::kScalar:
      return ElementStorageBytes(element->element);
    case TypeKind::kComplex:
      return 2 * ConstantElementBytes(element->inner);
    case TypeKind::kQuantized:
      return ConstantElementBytes(element->quantization->storage);
    default:
      return 0;
  }
}

namespace {

void AppendTypes(std::string* out, absl::Span<const SourceType* const> types);

void AppendDims(std::string* out, absl::Span<const int64_t> dims) {
  for (int64_t d : dims) {
    if (d == kDynamic) {
      absl::StrAppend(out, "?x");
    } else {
      absl::StrAppend(out, d, "x");
    }
  }
}

void AppendType(std::string* out, const SourceType* t) {
  switch (t->kind) {
    case TypeKind::kScalar:
      absl::StrAppend(out, ElementName(t->element));
      return;
    case TypeKind::kComplex:
      absl::StrAppend(out, "complex<");
      AppendType(out, t->inner);
      absl::StrAppend(out, ">");
      return;
    case TypeKind::kQuantized: {
      const SourceQuantization& q = *t->quantization;
      absl::StrAppend(out, "!quant.uniform<", q.storage_signed ? "" : "u");
      AppendType(out, q.storage);
      absl::StrAppend(out, "<", q.storage_min, ":", q.storage_max, ">:");
      AppendType(out, q.expressed);
      if (q.axis >= 0) absl::StrAppend(out, ":", q.axis);
      absl::StrAppend(out, ", {");
      for (size_t i = 0; i < q.scales.size(); ++i) {
        absl::StrAppendFormat(out, "%s%.17g:%d", i ? "," : "", q.scales[i],
                              i < q.zero_points.size() ? q.zero_points[i] : 0);
      }
      absl::StrAppend(out, "}>");
      return;
    }
    case TypeKind::kTensor:
    case TypeKind::kBuffer:
      absl::StrAppend(out, t->kind == TypeKind::kTensor ? "tensor<" : "memref<");
      AppendDims(out, t->dims);
      AppendType(out, t->inner);
      if (!t->bounds.empty()) {
        absl::StrAppend(out, ", #stablehlo.bounds<");
        for (size_t i = 0; i < t->bounds.size(); ++i) {
          absl::StrAppend(out, i ? ", " : "");
          if (t->bounds[i] == kDynamic) {
            absl::StrAppend(out, "?");
          } else {
            absl::StrAppend(out, t->bounds[i]);
          }
        }
        absl::StrAppend(out, ">");
      }
      if (t->encoding) absl::StrAppend(out, ", ", AttrToString(t->encoding));
      absl::StrAppend(out, ">");
      return;
    case TypeKind::kUnrankedTensor:
      absl::StrAppend(out, "tensor<*x");
      AppendType(out, t->inner);
      absl::StrAppend(out, ">");
      return;
    case TypeKind::kTuple:
    case TypeKind::kFuture:
      absl::StrAppend(out, t->kind == TypeKind::kTuple ? "tuple<" : "!stablehlo.future<");
      AppendTypes(out, t->members);
      absl::StrAppend(out, ">");
      return;
    case TypeKind::kFunction:
      absl::StrAppend(out, "(");
      AppendTypes(out, t->members);
      absl::StrAppend(out, ") -> ");
      if (t->results.size() == 1 && t->results[0]->kind != TypeKind::kFunction) {
        AppendType(out, t->results[0]);
      } else {
        absl::StrAppend(out, "(");
        AppendTypes(out, t->results);
        absl::StrAppend(out, ")");
      }
      return;
    case TypeKind::kToken:
      absl::StrAppend(out, "!stablehlo.token");
      return;
    case TypeKind::kNone:
      absl::StrAppend(out, "none");
      return;
    case TypeKind::kWitness:
      absl::StrAppend(out, "!shape.witness");
      return;
    case TypeKind::kOpaque:
      absl::StrAppend(out, t->text);
      return;
  }
}

void AppendTypes(std::string* out, absl::Span<const SourceType* const> types) {
  for (size_t i = 0; i < types.size(); ++i) {
    if (i) absl::StrAppend(out, ", ");
    AppendType(out, types[i]);
  }
}

void AppendQuoted(std::string* out, absl::string_view text) {
  absl::StrAppend(out, "\"", absl::CHexEscape(text), "\"");
}

void AppendAttr(std::string* out, const SourceAttr* a, const DumpOptions& options);

void AppendEntries(std::string* out, absl::Span<const SourceNamedAttr> entries, const DumpOptions& options) {
  absl::StrAppend(out, "{");
  for (size_t i = 0; i < entries.size(); ++i) {
    absl::StrAppend(out, i ? ", " : "", entries[i].name, " = ");
    AppendAttr(out, entries[i].value, options);
  }
  absl::StrAppend(out, "}");
}

void AppendDense(std::string* out, const SourceAttr* a, const DumpOptions& options) {
  size_t step = ConstantElementBytes(a->type->inner);
  absl::string_view bytes = a->text;
  // A splat and the same element written out are one constant.
  bool same = step > 0 && bytes.size() > 0 && bytes.size() % step == 0;
  for (size_t i = step; same && i < bytes.size(); i += step) same = bytes.substr(i, step) == bytes.substr(0, step);
  absl::StrAppend(out, "dense<");
  if (same) {
    absl::StrAppend(out, "splat 0x", absl::BytesToHexString(bytes.substr(0, step)));
  } else if (bytes.size() <= options.max_constant_bytes) {
    absl::StrAppend(out, "0x", absl::BytesToHexString(bytes));
  } else {
    absl::StrAppend(out, bytes.size(), " bytes ", absl::Hex(Fnv1a64(bytes), absl::kZeroPad16));
  }
  absl::StrAppend(out, "> : ", TypeToString(a->type));
}

void AppendAttr(std::string* out, const SourceAttr* a, const DumpOptions& options) {
  switch (a->kind) {
    case AttrKind::kUnit:
      absl::StrAppend(out, "unit");
      return;
    case AttrKind::kBool:
      absl::StrAppend(out, a->integer ? "true" : "false");
      return;
    case AttrKind::kInteger:
      if (a->type->element == ElementKind::kU64) {
        absl::StrAppend(out, static_cast<uint64_t>(a->integer));
      } else {
        absl::StrAppend(out, a->integer);
      }
      absl::StrAppend(out, " : ", TypeToString(a->type));
      return;
    case AttrKind::kFloat:
      absl::StrAppend(out, "0x", absl::Hex(a->bits), " : ", TypeToString(a->type));
      return;
    case AttrKind::kString:
      AppendQuoted(out, a->text);
      return;
    case AttrKind::kEnum:
    case AttrKind::kShardy:
    case AttrKind::kOpaque:
      absl::StrAppend(out, a->text);
      return;
    case AttrKind::kArray:
      absl::StrAppend(out, "[");
      for (size_t i = 0; i < a->elements.size(); ++i) {
        if (i) absl::StrAppend(out, ", ");
        AppendAttr(out, a->elements[i], options);
      }
      absl::StrAppend(out, "]");
      return;
    case AttrKind::kDict:
      AppendEntries(out, a->entries, options);
      return;
    case AttrKind::kType:
      AppendType(out, a->type);
      return;
    case AttrKind::kDense:
      AppendDense(out, a, options);
      return;
  }
}

class Dumper {
 public:
  Dumper(const SourceModule& module, const DumpOptions& options)
      : module_(module), options_(options), numbers_(module.value_count, -1) {}

  std::string Run() {
    absl::StrAppend(&out_, "module ");
    AppendQuoted(&out_, module_.name);
    absl::StrAppend(&out_, " ");
    AppendEntries(&out_, module_.attributes, options_);
    AppendLocation(module_.location);
    absl::StrAppend(&out_, "\n");
    for (const SourceOp* op : module_.ops) Op(*op, 1);
    return std::move(out_);
  }

 private:
  std::string Name(const SourceValue& value) {
    int& n = numbers_[value.id];
    if (n < 0) n = next_++;
    return absl::StrCat("%", n);
  }

  void AppendLocation(LocationId id) {
    if (!options_.locations) return;
    SourceLocation at = module_.Location(id);
    if (at.name.empty() && at.file.empty()) return;
    absl::StrAppend(&out_, " loc(");
    AppendQuoted(&out_, at.name);
    absl::StrAppend(&out_, " ", at.file, ":", at.line, ":", at.column, ")");
  }

  void Op(const SourceOp& op, int depth) {
    out_.append(2 * depth, ' ');
    for (size_t i = 0; i < op.results.size(); ++i) absl::StrAppend(&out_, i ? ", " : "", Name(op.results[i]));
    absl::StrAppend(&out_, op.results.empty() ? "" : " = ", op.name, "(");
    for (size_t i = 0; i < op.operands.size(); ++i) absl::StrAppend(&out_, i ? ", " : "", Name(*op.operands[i]));
    absl::StrAppend(&out_, ")");
    if (!op.attributes.empty()) {
      absl::StrAppend(&out_, " ");
      AppendEntries(&out_, op.attributes, options_);
    }
    absl::StrAppend(&out_, " : (");
    for (size_t i = 0; i < op.operands.size(); ++i) {
      absl::StrAppend(&out_, i ? ", " : "", TypeToString(op.operands[i]->type));
    }
    absl::StrAppend(&out_, ") -> (");
    for (size_t i = 0; i < op.results.size(); ++i) {
      absl::StrAppend(&out_, i ? ", " : "", TypeToString(op.results[i].type));
    }
    absl::StrAppend(&out_, ")");
    AppendLocation(op.location);
    absl::StrAppend(&out_, "\n");
    for (const SourceRegion& region : op.regions) {
      out_.append(2 * depth, ' ');
      absl::StrAppend(&out_, "region");
      for (const SourceBlock& block : region.blocks) {
        absl::StrAppend(&out_, " (");
        for (size_t i = 0; i < block.arguments.size(); ++i) {
          absl::StrAppend(&out_, i ? ", " : "", Name(block.arguments[i]), ": ", TypeToString(block.arguments[i].type));
          AppendLocation(block.arguments[i].location);
        }
        absl::StrAppend(&out_, ")\n");
        for (const SourceOp* inner : block.ops) Op(*inner, depth + 1);
      }
      if (region.blocks.empty()) absl::StrAppend(&out_, " empty\n");
    }
  }

  const SourceModule& module_;
  const DumpOptions& options_;
  std::vector<int> numbers_;
  int next_ = 0;
  std::string out_;
};

}  // namespace

std::string TypeToString(const SourceType* type) {
  std::string out;
  AppendType(&out, type);
  return out;
}

std::string AttrToString(const SourceAttr* attr, const DumpOptions& options) {
  std::string out;
  AppendAttr(&out, attr, options);
  return out;
}

const SourceAttr* SourceAttr::Find(absl::string_view name) const { return FindIn(entries, name); }
const SourceAttr* SourceOp::Find(absl::string_view attribute) const { return FindIn(attributes, attribute); }
const SourceAttr* SourceModule::Find(absl::string_view attribute) const { return FindIn(attributes, attribute); }

const SourceOp* SourceModule::FindSymbol(absl::string_view symbol) const {
  auto it = symbols.find(symbol);
  return it == symbols.end() ? nullptr : it->second;
}

std::string DumpSource(const SourceModule& module, const DumpOptions& options) { return Dumper(module, options).Run(); }

}  // namespace backplane::stablehlo
