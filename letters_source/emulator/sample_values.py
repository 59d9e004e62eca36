"""The values that sample rows are made of. No real person, company or mailbox."""

FIRST_NAMES = (
    "Ada", "Alexis", "Amara", "Björn", "Cleo", "Dariush", "Elodie", "Farrah", "Gideon", "Hana", "Ilse", "Jovan",
    "Kalina", "Leif", "Mireille", "Nguyễn", "Odalys", "Piotr", "Quincy", "Renée", "Søren", "Tamsin", "Ulises",
    "Vesna", "Wren", "Ximena", "Yusuf", "Zoë", "",
)  # fmt: skip
LAST_NAMES = (
    "Abernethy", "Brightwater", "Castellan", "Dunmorrow", "Easterling", "Fernsby", "Greyson-Vale", "Hollowell",
    "Ironwood", "Jasperse", "Kettleburn", "Lindqvist", "Marchbanks", "Nightingale", "O'Example", "Pemberley",
    "Quillfeather", "Ravenscroft", "Sørbakken", "Thistlewood", "Underhill", "Vandermeer", "Winterbourne",
    "Yarrowdale", "Zeltinger",
)  # fmt: skip
COMPANIES = (
    "ABC, Inc.", "Example Holdings", 'The "Paper" Mill', "Grünwald & Söhne", "Acme Roofing LLC", "Café Exemple",
    "Northwind Estates", "Blue Door Realty", "", "", None,
)  # fmt: skip
STREETS = (
    "Random Street", "High St", "Old Mill Road", "Maple Avenue", "Rue de l'Été", "Harbor View Drive", "Second Avenue",
    "County Road 12", "Orchard Lane",
)  # fmt: skip
SECOND_LINES = ("", "", "", "Suite 567", "Apt 4B", "Unit #12", None)
EXTENSIONS = ("", "", "", "123", "07", None)

PLACES = (
    ("Hoboken", "New Jersey", "07030", "201"), ("Newark", "New Jersey", "07102", "973"),
    ("Portland", "Maine", "04101", "207"), ("Boston", "Massachusetts", "02108", "617"),
    ("Providence", "Rhode Island", "02903", "401"), ("Hartford", "Connecticut", "06103", "860"),
    ("Concord", "New Hampshire", "03301", "603"), ("Burlington", "Vermont", "05401", "802"),
    ("San Juan", "Puerto Rico", "00901", "787"), ("Springfield", "Illinois", "62704", "217"),
    ("Portland", "Oregon", "97201", "503"), ("Austin", "Texas", "78701", "512"),
    ("Cañon City", "Colorado", "81212", "719"), ("Columbus", "Ohio", "43215", "614"),
    ("Fargo", "North Dakota", "58102", "701"), ("Tampa", "Florida", "33602", "813"),
)  # fmt: skip

ACCOUNTS = ("501", "502", "503")

LABELS = (
    ("4", "office"), ("5", "house"), ("6", 'Q4 "hot"'), ("7", "Größe XL"), ("8", "follow-up"), ("9", "顧客"),
    ("10", "do not mail"), ("11", "l'été"), ("12", "VIP 🎩"), ("13", "buyers, past"), ("14", "sellers"),
)  # fmt: skip

TITLES = (
    "Spring offer", "Zweite Mahnung „Ä“", "Holiday greeting", "Just listed", 'The "Final" notice', "Price reduced",
    "Open house invitation", "Lettre d'été", "",
)  # fmt: skip
CREATORS = (("2", "Ada Example"), ("4", "Zoë O'Example"), ("7", "Gideon Fernsby"), ("11", "Björn Lindqvist"))
TEMPLATE_TYPES = ("json", "json", "json", "html")

PAPER_AND_ENVELOPE = {
    "Professional Letters": ("60# Statement", "8.5x11", "#10 Grey"),
    "Personal Letters": ("80# Linen", "4.25x5.5", "A7 White"),
}
DELIVERY_AND_POSTAGE = {"First Class": "Live", "Standard Class": "Stamped"}
PRODUCT_METAS = (None, None, {"folds": 1, "colors": ["black", "blue"]}, {"duplex": True, "note": "Maß"})
