#include "sdk/backend/mixed/value.h"

#include <utility>

#include "core/types/status_macros.h"

namespace backplane::mixed {

Value Value::OfLiteral(Literal literal) {
  Value value;
  if (literal.shape().IsTuple()) {
    value.is_tuple_ = true;
    for (Literal& element : literal.mutable_elements()) value.elements_.push_back(OfLiteral(std::move(element)));
    return value;
  }
  value.shape_ = literal.shape();
  value.host_ = std::move(literal);
  return value;
}

Value Value::OfStorage(const Shape& shape, std::shared_ptr<Storage> storage) {
  Value value;
  value.shape_ = shape.WithoutLayout();
  value.storage_ = std::move(storage);
  return value;
}

Value Value::Tuple(std::vector<Value> elements) {
  Value value;
  value.is_tuple_ = true;
  value.elements_ = std::move(elements);
  return value;
}

absl::StatusOr<Literal> Value::OnHost(Placement& placement) {
  if (is_tuple_) {
    std::vector<Literal> elements;
    for (Value& element : elements_) {
      ASSIGN_OR_RETURN(Literal literal, element.OnHost(placement));
      elements.push_back(std::move(literal));
    }
    return Literal::Tuple(std::move(elements));
  }
  if (!host_.valid()) {
    if (placement.on_host()) return Literal::Borrow(shape_, storage_->data());
    Literal copy(shape_);
    const size_t bytes = static_cast<size_t>(shape_.byte_size());
    if (bytes > 0) {
      RETURN_IF_ERROR(placement.memory()->CopyOut(placement.device(), storage_->data(), copy.mutable_bytes(), bytes));
    }
    host_ = std::move(copy);
  }
  return host_;
}

absl::StatusOr<Literal> Value::MoveToHost(Placement& placement) && {
  if (is_tuple_) {
    std::vector<Literal> elements;
    for (Value& element : elements_) {
      ASSIGN_OR_RETURN(Literal literal, std::move(element).MoveToHost(placement));
      elements.push_back(std::move(literal));
    }
    return Literal::Tuple(std::move(elements));
  }
  if (host_.valid()) return std::move(host_);
  RETURN_IF_ERROR(OnHost(placement).status());
  if (host_.valid()) return std::move(host_);
  return OnHost(placement);  // borrowed, so it cannot be moved out
}

absl::StatusOr<const void*> Value::OnDevice(Placement& placement) {
  if (storage_ != nullptr) return storage_->data();
  if (placement.on_host()) return static_cast<const void*>(host_.bytes());
  const size_t bytes = static_cast<size_t>(shape_.byte_size());
  ASSIGN_OR_RETURN(std::shared_ptr<Storage> storage, placement.Allocate(bytes));
  RETURN_IF_ERROR(placement.memory()->CopyIn(placement.device(), host_.bytes(), storage->data(), bytes));
  storage_ = std::move(storage);
  return storage_->data();
}

absl::Status Value::Detach(Placement& placement) {
  ASSIGN_OR_RETURN(Literal literal, OnHost(placement));
  storage_ = nullptr;
  host_ = std::move(literal);
  if (shape_.IsArray()) host_.mutable_bytes();
  return absl::OkStatus();
}

}  // namespace backplane::mixed
