#include "core/import/stablehlo/bytecode_reader.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/import/stablehlo/byte_reader.h"
#include "core/import/stablehlo/bytecode_entries.h"
#include "core/import/stablehlo/op_table.h"
#include "core/import/stablehlo/source_build.h"

namespace backplane::stablehlo {
namespace {

constexpr int kIrSection = 4;

enum OpMask : uint8_t {
  kHasAttributes = 0x01,
  kHasResults = 0x02,
  kHasOperands = 0x04,
  kHasSuccessors = 0x08,
  kHasRegions = 0x10,
  kHasUseOrder = 0x20,
  kHasProperties = 0x40,
  kUnknownMask = 0x80,
};

// The values an op may refer to: outer regions' first. A null slot is announced but not defined yet.
using Scope = std::vector<const SourceValue*>;

class IrReader {
 public:
  IrReader(const BytecodeContainer* container, SourceModule* module)
      : container_(*container), module_(*module), arena_(module->arena()), entries_(container, &module->arena()) {}

  absl::Status Read() {
    ByteReader in(container_.ir.bytes, container_.ir.origin, "section 4 (ir)");
    bool has_arguments = false;
    uint64_t ops = in.VarintFlag(&has_arguments);
    if (in.ok() && (ops != 1 || has_arguments)) in.Fail("expected one builtin.module and no arguments at the top");
    if (!in.ok()) return in.status();
    Scope scope;
    SourceOp* root = ReadOp(in, scope, 0, Parent::kNone, nullptr);
    if (in.ok() && !in.AtEnd()) in.Fail(absl::StrCat(in.Left(), " bytes left over"));
    if (!in.ok()) return in.status();
    if (root->name != "builtin.module" || root->regions.size() != 1 || root->regions[0].blocks.size() != 1) {
      return in.Fail(absl::StrCat("top-level op is ", root->name, ", expected builtin.module with one region"));
    }
    module_.location = root->location;
    std::vector<SourceNamedAttr> kept;
    for (const SourceNamedAttr& a : root->attributes) {
      if (a.name == "sym_name" && a.value->kind == AttrKind::kString) {
        module_.name = a.value->text;
      } else if (a.name != "sym_visibility") {
        kept.push_back(a);
      }
    }
    module_.attributes = arena_.Copy(kept);
    module_.ops = root->regions[0].blocks[0].ops;
    module_.value_count = next_value_;
    return absl::OkStatus();
  }

 private:
  enum class Parent { kNone, kModule, kFunction, kOther };

  // What op is being read, for messages.
  void OpError(ByteReader& in, absl::string_view op, uint64_t at, absl::string_view message) {
    in.Adopt(absl::InvalidArgumentError(
        absl::StrCat("portable artifact ", container_.producer, ": ", op, " at byte ", at, ": ", message)));
  }

  // Skips what only orders the uses of `values` values.
  void SkipUseOrder(ByteReader& in, uint64_t values) {
    uint64_t n = values > 1 ? in.Count("use lists") : 1;
    for (uint64_t i = 0; i < n && in.ok(); ++i) {
      if (values > 1) in.Varint();
      bool pairs = false;
      uint64_t count = in.VarintFlag(&pairs);
      if (in.ok() && count > in.Left()) in.Fail(absl::StrCat("use list of ", count));
      for (uint64_t k = 0; k < count && in.ok(); ++k) in.Varint();
    }
  }

  LocationId CheckLocation(ByteReader& in, uint64_t index) {
    if (in.ok() && index >= container_.attributes.size()) {
      in.Fail(absl::StrCat("location attribute ", index, " of ", container_.attributes.size()));
    }
    return static_cast<LocationId>(index + 1);
  }

  // Defines the next value of the region being filled.
  void Define(ByteReader& in, Scope& scope, uint64_t* next, const SourceValue* value) {
    if (!in.ok()) return;
    if (*next >= scope.size()) {
      in.Fail("more values are defined than the region announced");
      return;
    }
    scope[(*next)++] = value;
  }

  // One region's blocks; `scope` holds what is visible outside.
  void ReadRegion(ByteReader& in, Scope& scope, int depth, Parent parent, SourceRegion* region) {
    uint64_t blocks = in.Count("blocks");
    if (blocks == 0) return;
    if (blocks > 1) {
      in.Fail(absl::StrCat("region of ", blocks, " blocks: unstructured control flow is not StableHLO"));
      return;
    }
    size_t base = scope.size();
    uint64_t values = in.Varint();
    if (in.ok() && values > in.Left())
      in.Fail(absl::StrCat("region of ", values, " values, ", in.Left(), " bytes left"));
    if (!in.ok()) return;
    scope.resize(base + values, nullptr);
    uint64_t next = base;

    region->blocks = arena_.NewArray<SourceBlock>(1);
    SourceBlock& block = region->blocks[0];
    bool has_arguments = false;
    uint64_t ops = in.VarintFlag(&has_arguments);
    if (in.ok() && ops > in.Left()) in.Fail(absl::StrCat("block of ", ops, " ops, ", in.Left(), " bytes left"));
    if (has_arguments && in.ok()) {
      uint64_t n = in.Count("block arguments");
      block.arguments = arena_.NewArray<SourceValue>(n);
      for (uint64_t i = 0; i < n && in.ok(); ++i) ReadArgument(in, scope, &next, i, &block.arguments[i]);
      if (container_.layout_version >= 3 && in.ok() && in.Byte() != 0) SkipUseOrder(in, n);
    }
    std::vector<SourceOp*> list;
    for (uint64_t i = 0; i < ops && in.ok(); ++i) {
      SourceOp* op = ReadOp(in, scope, depth, parent, &next);
      if (op && op->name != "builtin.unrealized_conversion_cast") list.push_back(op);
    }
    block.ops = arena_.Copy(list);
    scope.resize(base);
  }

  void ReadArgument(ByteReader& in, Scope& scope, uint64_t* next, uint64_t index, SourceValue* value) {
    uint64_t type = 0;
    bool located = true;
    if (container_.layout_version >= 4) {
      type = in.VarintFlag(&located);
    } else {
      type = in.Varint();
    }
    if (!in.ok()) return;
    absl::StatusOr<const SourceType*> t = entries_.Type(type);
    if (!t.ok()) {
      in.Adopt(t.status());
      return;
    }
    value->type = *t;
    value->index = static_cast<uint32_t>(index);
    value->id = next_value_++;
    if (located) value->location = CheckLocation(in, in.Varint());
    Define(in, scope, next, value);
  }

  // Regions of one op, inline or in a separate section.
  void ReadRegions(ByteReader& in, Scope& scope, int depth, Parent parent, absl::Span<SourceRegion> regions,
                   bool isolated) {
    if (!isolated) {
      for (SourceRegion& r : regions) {
        if (in.ok()) ReadRegion(in, scope, depth, parent, &r);
      }
      return;
    }
    if (container_.layout_version < 2) {
      for (SourceRegion& r : regions) {
        Scope own;
        if (in.ok()) ReadRegion(in, own, depth, parent, &r);
      }
      return;
    }
    uint8_t head = in.Byte();
    uint64_t length = in.Varint();
    if (in.ok() && (head & 0x80)) {
      uint64_t alignment = in.Varint();
      if (alignment == 0 || (alignment & (alignment - 1)) != 0) in.Fail(absl::StrCat("alignment ", alignment));
      while (in.ok() && (in.Position() & (alignment - 1)) != 0) {
        if (in.Byte() != 0xCB) in.Fail("padding byte is not 0xCB");
      }
    }
    if (in.ok() && (head & 0x7f) != kIrSection) in.Fail(absl::StrCat("section ", head & 0x7f, " inside an op"));
    uint64_t origin = in.Position();
    absl::string_view bytes = in.Bytes(length);
    if (!in.ok()) return;
    ByteReader nested(bytes, origin, "section 4 (ir)");
    for (SourceRegion& r : regions) {
      Scope own;
      if (nested.ok()) ReadRegion(nested, own, depth, parent, &r);
    }
    if (nested.ok() && !nested.AtEnd()) nested.Fail(absl::StrCat(nested.Left(), " bytes left over after the regions"));
    in.Adopt(nested.status());
  }

  // The op's attributes, inherent and discardable, upgraded to the newest form.
  absl::Status ReadAttributes(const OpForm* form, absl::string_view op_name, const SourceAttr* dictionary,
                              const BytecodeContainer::Blob* properties, std::vector<SourceNamedAttr>* out) {
    if (dictionary) out->assign(dictionary->entries.begin(), dictionary->entries.end());
    std::vector<absl::string_view> names = SplitNames(form ? form->attributes : FindForeignAttributes(op_name));
    if (container_.layout_version >= 5) {
      if (properties == nullptr) {
        for (absl::string_view name : names) {
          if (name.back() != '?') return absl::InvalidArgumentError(absl::StrCat("property ", name, " is missing"));
        }
      } else {
        ByteReader p(properties->bytes, properties->origin, "section 8 (properties)");
        for (absl::string_view name : names) {
          bool optional = name.back() == '?';
          if (optional) name.remove_suffix(1);
          const SourceAttr* value = optional ? ReadPossible(p) : entries_.ReadAttribute(p);
          if (!p.ok()) return absl::InvalidArgumentError(absl::StrCat("attribute ", name, ": ", p.status().message()));
          if (value) out->push_back({name, value});
        }
        if (!p.AtEnd()) return p.Fail(absl::StrCat(p.Left(), " bytes left over in the properties"));
      }
    } else if (properties != nullptr) {
      return absl::InvalidArgumentError("properties in a layout version that has none");
    }
    if (form == nullptr) {
      absl::string_view repeated;
      if (!SortEntries(out, &repeated)) {
        return absl::InvalidArgumentError(absl::StrCat("attribute ", repeated, " stands twice"));
      }
      return absl::OkStatus();
    }
    for (absl::string_view name : names) {
      auto it = std::find_if(out->begin(), out->end(), [&](const SourceNamedAttr& a) { return a.name == name; });
      if (it == out->end()) return absl::InvalidArgumentError(absl::StrCat("attribute ", name, " is missing"));
      if (absl::Status s = CheckAttributeKind(form->name, name, it->value); !s.ok()) return s;
    }
    // dynamic_conv lost its padding attribute to an operand that was always there.
    if (absl::string_view(form->name) == "dynamic_conv" && form->version == 1) {
      out->erase(std::remove_if(out->begin(), out->end(), [](const SourceNamedAttr& a) { return a.name == "padding"; }),
                 out->end());
    }
    return CompleteAttributes(arena_, *FindNewestForm(SourceOpName(*form)), out);
  }

  const SourceAttr* ReadPossible(ByteReader& in) { return entries_.ReadOptionalAttribute(in); }

  SourceOp* ReadOp(ByteReader& in, Scope& scope, int depth, Parent parent, uint64_t* next) {
    uint64_t at = in.Position();
    if (depth > kMaxRegionDepth) {
      in.Fail(absl::StrCat("regions are nested deeper than ", kMaxRegionDepth));
      return nullptr;
    }
    uint64_t name_index = in.Varint();
    if (in.ok() && name_index >= container_.op_names.size()) {
      in.Fail(absl::StrCat("op name ", name_index, " of ", container_.op_names.size()));
    }
    if (!in.ok()) return nullptr;
    const BytecodeContainer::OpName& name = container_.op_names[name_index];
    std::string spelled = absl::StrCat(name.dialect, ".", name.name);
    const OpForm* form = name.dialect == "vhlo" ? FindVhloForm(name.name) : nullptr;
    if (form == nullptr && FindForeignAttributes(spelled) == nullptr) {
      in.Adopt(absl::UnimplementedError(absl::StrCat("portable artifact: unknown op ", spelled, " at byte ", at,
                                                     ", producer ", container_.producer, "; newest known version is ",
                                                     kNewestVhlo[0], ".", kNewestVhlo[1], ".", kNewestVhlo[2])));
      return nullptr;
    }
    auto fail = [&](absl::string_view message) -> SourceOp* {
      OpError(in, spelled, at, message);
      return nullptr;
    };
    SourceOp* op = arena_.New<SourceOp>();
    op->name = form ? SourceOpName(*form) : arena_.CopyString(spelled);
    if (form && op->name == "stablehlo.return" && parent == Parent::kFunction) op->name = "func.return";

    uint8_t mask = in.Byte();
    if (mask & kUnknownMask) return fail("unknown bit 0x80 in the op mask");
    if (mask & kHasSuccessors) return fail("successors: unstructured control flow is not StableHLO");
    op->location = CheckLocation(in, in.Varint());
    const SourceAttr* dictionary = nullptr;
    if (mask & kHasAttributes) {
      dictionary = entries_.ReadAttribute(in);
      in.Annotate(absl::StrCat(spelled, " at byte ", at, ": attribute dictionary"));
      if (!in.ok()) return nullptr;
      if (dictionary->kind != AttrKind::kDict) return fail("attribute dictionary is no dictionary");
    }
    const BytecodeContainer::Blob* properties = nullptr;
    if (mask & kHasProperties) {
      uint64_t index = in.Varint();
      if (!in.ok()) return nullptr;
      if (index >= container_.properties.size()) {
        return fail(absl::StrCat("properties ", index, " of ", container_.properties.size()));
      }
      properties = &container_.properties[index];
    }
    std::vector<SourceNamedAttr> attributes;
    if (absl::Status s = ReadAttributes(form, op->name, dictionary, properties, &attributes); in.ok() && !s.ok()) {
      in.Adopt(absl::Status(s.code(), absl::StrCat("portable artifact ", container_.producer, ": ", spelled,
                                                   " at byte ", at, ": ", s.message())));
    }
    if (!in.ok()) return nullptr;
    Normalize(op->name, &attributes);
    op->attributes = arena_.Copy(attributes);

    std::vector<const SourceType*> result_types;
    if (mask & kHasResults) {
      uint64_t n = in.Count("results");
      for (uint64_t i = 0; i < n && in.ok(); ++i) result_types.push_back(entries_.ReadType(in));
      in.Annotate(absl::StrCat(spelled, " at byte ", at, ": result type"));
    }
    if (mask & kHasOperands) {
      uint64_t n = in.Count("operands");
      std::vector<const SourceValue*> operands;
      for (uint64_t i = 0; i < n && in.ok(); ++i) {
        uint64_t v = in.Varint();
        if (!in.ok()) break;
        if (v >= scope.size() || scope[v] == nullptr) {
          return fail(absl::StrCat("operand ", i, " is value ", v, ", which is not defined before it"));
        }
        operands.push_back(scope[v]);
      }
      op->operands = arena_.Copy(operands);
    }
    if (mask & kHasUseOrder) SkipUseOrder(in, result_types.size());
    bool isolated = false;
    if (mask & kHasRegions) {
      uint64_t n = in.VarintFlag(&isolated);
      if (in.ok() && n > in.Left()) return fail(absl::StrCat(n, " regions announced"));
      if (in.ok()) op->regions = arena_.NewArray<SourceRegion>(n);
    }
    if (!in.ok()) return nullptr;
    if (form) {
      auto check = [&](const char* what, size_t n, Arity arity) {
        if (arity.Fits(n)) return true;
        fail(absl::StrCat(n, " ", what, ", expected ", arity.more ? "at least " : "", static_cast<int>(arity.least)));
        return false;
      };
      if (!check("operands", op->operands.size(), form->operands)) return nullptr;
      if (!check("results", result_types.size(), form->results)) return nullptr;
      if (!check("regions", op->regions.size(), form->regions)) return nullptr;
    }
    if (op->name == "builtin.unrealized_conversion_cast")
      return DefineCast(in, scope, next, op, result_types, spelled, at);

    // Results are defined before the regions are read, but are not visible inside: regions open no scope of results.
    op->results = arena_.NewArray<SourceValue>(result_types.size());
    for (size_t i = 0; i < result_types.size(); ++i) {
      op->results[i].type = result_types[i];
      op->results[i].op = op;
      op->results[i].index = static_cast<uint32_t>(i);
      op->results[i].id = next_value_++;
    }
    if (!op->regions.empty()) {
      Parent inside = op->name == "builtin.module" ? Parent::kModule
                      : op->name == "func.func"    ? Parent::kFunction
                                                   : Parent::kOther;
      ReadRegions(in, scope, depth + 1, inside, op->regions, isolated);
    }
    if (!in.ok()) return nullptr;
    if (op->name == "func.func" && !CheckFunction(*op)) return fail("function type and body arguments differ");
    for (const SourceValue& v : op->results) {
      if (next == nullptr) return fail("results at the top level");
      Define(in, scope, next, &v);
    }
    if (parent == Parent::kModule) {
      const SourceAttr* symbol = op->Find("sym_name");
      if (symbol == nullptr || symbol->kind != AttrKind::kString) return fail("op without a symbol name in the module");
      if (!module_.symbols.emplace(symbol->text, op).second) {
        return fail(absl::StrCat("symbol @", symbol->text, " is defined twice"));
      }
    }
    return op;
  }

  // A cast between a builtin and a VHLO spelling of one type is no op at all.
  SourceOp* DefineCast(ByteReader& in, Scope& scope, uint64_t* next, SourceOp* op,
                       const std::vector<const SourceType*>& types, absl::string_view spelled, uint64_t at) {
    if (next == nullptr || types.size() != op->operands.size()) {
      OpError(in, spelled, at, "expected as many results as operands");
      return nullptr;
    }
    for (size_t i = 0; i < types.size(); ++i) {
      if (!SameType(types[i], op->operands[i]->type)) {
        OpError(in, spelled, at,
                absl::StrCat("casts ", TypeToString(op->operands[i]->type), " to ", TypeToString(types[i]),
                             ", expected two spellings of one type"));
        return nullptr;
      }
      Define(in, scope, next, op->operands[i]);
    }
    return in.ok() ? op : nullptr;
  }

  bool CheckFunction(const SourceOp& op) {
    const SourceAttr* type = op.Find("function_type");
    if (type->type->kind != TypeKind::kFunction) return false;
    if (op.regions[0].blocks.empty()) return true;
    const SourceBlock& body = op.regions[0].blocks[0];
    return std::equal(body.arguments.begin(), body.arguments.end(), type->type->members.begin(),
                      type->type->members.end(),
                      [](const SourceValue& v, const SourceType* t) { return SameType(v.type, t); });
  }

  // One spelling where the artifact has two.
  void Normalize(absl::string_view op, std::vector<SourceNamedAttr>* attributes) {
    for (SourceNamedAttr& a : *attributes) {
      if (op == "func.func" && (a.name == "arg_attrs" || a.name == "res_attrs") && a.value->kind == AttrKind::kArray &&
          std::all_of(a.value->elements.begin(), a.value->elements.end(),
                      [](const SourceAttr* e) { return e->kind == AttrKind::kDict && e->entries.empty(); })) {
        a.value = MakeArray(arena_, {});
      }
      if (op == "stablehlo.composite" && a.name == "version") {
        a.value = MakeInteger(arena_, a.value->integer, ElementKind::kI32);
      }
    }
  }

  const BytecodeContainer& container_;
  SourceModule& module_;
  SourceArena& arena_;
  BytecodeEntries entries_;
  uint32_t next_value_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<SourceModule>> ReadPortableArtifact(absl::string_view bytes) {
  absl::StatusOr<BytecodeContainer> container = ReadBytecodeContainer(bytes);
  if (!container.ok()) return container.status();
  auto module = std::make_unique<SourceModule>();
  module->written_bytes = static_cast<int64_t>(bytes.size());
  module->producer = container->producer;
  std::copy(std::begin(container->version), std::end(container->version), std::begin(module->version));
  IrReader reader(&*container, module.get());
  if (absl::Status s = reader.Read(); !s.ok()) return s;
  module->resolver = MakeBytecodeLocationResolver(*std::move(container));
  return module;
}

}  // namespace backplane::stablehlo
