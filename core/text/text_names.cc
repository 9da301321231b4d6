#include "core/text/text_names.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace backplane {

StringMap FrontendAttributesWithComposite(const Instruction& i) {
  StringMap map = i.frontend_attributes();
  if (!i.Is(Opcode::kCall)) return map;
  const Attributes& a = i.attrs();
  if (a.Has(AttrId::kCompositeName)) map[kCompositeNameKey] = a.GetString(AttrId::kCompositeName);
  if (a.Has(AttrId::kCompositeAttributes)) map[kCompositeAttributesKey] = a.GetString(AttrId::kCompositeAttributes);
  if (a.Has(AttrId::kCompositeVersion)) map[kCompositeVersionKey] = absl::StrCat(a.GetInt(AttrId::kCompositeVersion));
  return map;
}

absl::Status TakeComposite(StringMap* frontend, Attributes* attrs) {
  if (!attrs->GetBool(AttrId::kIsComposite)) return absl::OkStatus();
  auto take = [&](const char* key) -> std::optional<std::string> {
    auto it = frontend->find(key);
    if (it == frontend->end()) return std::nullopt;
    std::string value = std::move(it->second);
    frontend->erase(it);
    return value;
  };
  if (auto name = take(kCompositeNameKey)) attrs->Set(AttrId::kCompositeName, *std::move(name));
  if (auto attributes = take(kCompositeAttributesKey)) attrs->Set(AttrId::kCompositeAttributes, *std::move(attributes));
  if (auto version = take(kCompositeVersionKey)) {
    int64_t v;
    if (!absl::SimpleAtoi(*version, &v)) return absl::InvalidArgumentError("composite.version is no number");
    attrs->Set(AttrId::kCompositeVersion, v);
  }
  return absl::OkStatus();
}

}  // namespace backplane
