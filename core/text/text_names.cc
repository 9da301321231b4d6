#include "core/text/text_names.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace backplane {
namespace {

constexpr char kFfiNote[] = "backend_config";

}  // namespace

StringMap CollectFrontendAttributes(const Instruction& i) {
  StringMap map = i.frontend_attributes();
  if (!i.Is(Opcode::kCall)) return map;
  const Attributes& a = i.attrs();
  if (a.Has(AttrId::kCompositeName)) map[kCompositeNameKey] = a.GetString(AttrId::kCompositeName);
  if (a.Has(AttrId::kCompositeAttributes)) map[kCompositeAttributesKey] = a.GetString(AttrId::kCompositeAttributes);
  if (a.Has(AttrId::kCompositeVersion)) map[kCompositeVersionKey] = absl::StrCat(a.GetInt(AttrId::kCompositeVersion));
  return map;
}

std::string FormatFfiAttributes(const Instruction& i, bool as_read) {
  const FfiDictionary& dictionary = i.attrs().Get<FfiDictionary>(AttrId::kFfiAttributes);
  if (as_read && i.annotations() != nullptr) {
    auto it = i.annotations()->find(kFfiNote);
    if (it != i.annotations()->end()) {
      absl::StatusOr<FfiDictionary> read = ParseFfiDictionary(it->second);
      if (read.ok() && *read == dictionary) return it->second;
    }
  }
  return ToString(dictionary);
}

void NoteFfiText(const Instruction& i, const std::string& text, StringMap* annotations) {
  if (!text.empty() && text != ToString(i.attrs().Get<FfiDictionary>(AttrId::kFfiAttributes))) {
    (*annotations)[kFfiNote] = text;
  }
}

absl::Status ExtractComposite(StringMap* frontend, Attributes* attrs) {
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
