// Coefficients of the complementary error function, which both the import of CHLO and the export to StableHLO expand.
#ifndef BACKPLANE_CORE_IMPORT_ERFC_COEFFICIENTS_H_
#define BACKPLANE_CORE_IMPORT_ERFC_COEFFICIENTS_H_

namespace backplane {

// For 1 <= x <= 8, erfc(x) = exp(-x^2) * N(x) / D(x) in f64, with the coefficients of the highest power first. They are
// those of S. L. Moshier's Cephes library (ndtr).
inline constexpr double kErfcNumerator[] = {
    2.46196981473530512524e-10, 5.64189564831068821977e-1, 7.46321056442269912687e0,
    4.86371970985681366614e1,   1.96520832956077098242e2,  5.26445194995477358631e2,
    9.34528527171957607540e2,   1.02755188689515710272e3,  5.57535335369399327526e2};
inline constexpr double kErfcDenominator[] = {1.0,
                                              1.32281951154744992508e1,
                                              8.67072140885989742329e1,
                                              3.54937778887819891062e2,
                                              9.75708501743205489753e2,
                                              1.82390916687909736289e3,
                                              2.24633760818710981792e3,
                                              1.65666309194161350182e3,
                                              5.57535340817727675546e2};

}  // namespace backplane

#endif  // BACKPLANE_CORE_IMPORT_ERFC_COEFFICIENTS_H_
