#include "sdk/backend/custom_call.h"

#include <cstring>

#include "absl/strings/str_cat.h"

namespace backplane {

void CopyOperandToResult(const CustomCallBuffer& result, CustomCallBuffer* operand) {
  if (operand->data == result.data || operand->data == nullptr || result.data == nullptr) return;
  int64_t bytes = ByteWidth(operand->type);
  for (int64_t d : operand->dims) bytes *= d;
  std::memcpy(result.data, operand->data, static_cast<size_t>(bytes));
  operand->data = result.data;
}

absl::Status ExecuteContext::SendToHost(int64_t channel, const CustomCallBuffer&) const {
  return absl::FailedPreconditionError(absl::StrCat("the host takes nothing on channel ", channel));
}

absl::Status ExecuteContext::ReceiveFromHost(int64_t channel, const CustomCallBuffer&) const {
  return absl::FailedPreconditionError(absl::StrCat("the host gives nothing on channel ", channel));
}

}  // namespace backplane
