{{ config(enabled='contacts' in var('letters_parts')) }}

with labels as (
    select
        contact_id,
        count(*) as label_count,
        string_agg(label, ', ' order by label_position) as labels
    from {{ ref('stg_contact_labels') }}
    group by contact_id
)

select
    contacts.*,
    coalesce(labels.label_count, 0) as label_count,
    labels.labels
from {{ ref('stg_contacts') }} as contacts
left join labels on labels.contact_id = contacts.contact_id
