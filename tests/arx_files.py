"""Hierarchy files that ARX ships: lines and columns, as ../shared/data/arx/README.md says."""

HIERARCHIES = {
    "adult_hierarchy_age": (100, 5),
    "adult_hierarchy_education": (16, 4),
    "adult_hierarchy_marital-status": (7, 3),
    "adult_hierarchy_native-country": (41, 3),
    "adult_hierarchy_occupation": (14, 3),
    "adult_hierarchy_race": (5, 2),
    "adult_hierarchy_salary-class": (2, 2),
    "adult_hierarchy_sex": (2, 2),
    "adult_hierarchy_workclass": (8, 3),
    "test_hierarchy_age": (100, 3),
    "test_hierarchy_gender": (2, 2),
    "test_hierarchy_zipcode": (10_000, 6),
    "test2_hierarchy_Age": (9, 3),
    "test2_hierarchy_Disease": (6, 4),
    "test2_hierarchy_ZIPCode": (9, 6),
}
